"""int8 with scales of the columns: less error with uneven inputs, one product, files."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close

import headway
from headway.base.errors import DataError
from headway.base.folders import MANIFEST
from headway.bundle import TextBundle
from headway.bundle.files import WEIGHTS_FILE
from headway.transforms import dequantize, fast, quantize
from headway.transforms.fast.table import prepare_for_inference
from headway.transforms.quantize.layers import Int8Linear
from headway.transforms.quantize.smoothing import column_scales
from tests.fixtures import bundles
from tests.fixtures.rounding import errors, gpt

INPUTS, OUTPUTS = 90, 70
COLUMNS = "weight_columns"


def uneven(rows):
    """Inputs of which a few are 50 times as large as the others, and one is always 0."""
    sizes = torch.ones(INPUTS)
    sizes[[3, 40]], sizes[7] = 50, 0
    return torch.randn(rows, INPUTS) * sizes


def uneven_gpt(**changes):
    model = gpt(**changes)
    with torch.no_grad():
        for block in model.decoder.blocks:  # as trained models have
            block.around_attention.norm.gain[5] = 20
            block.around_feedforward.norm.gain[9] = 20
    return model


def calibrated(model, tokens):
    return quantize(model, "int8", calibrate=partial(model, tokens))


def linears(model):
    return {n: m for n, m in model.named_modules() if isinstance(m, Int8Linear)}


def test_calibration_with_uneven_inputs_takes_most_of_the_error_away():
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Linear(INPUTS, OUTPUTS)), uneven(400)
    nearest, calibrated = errors(model, "int8", inputs, uneven(200))
    assert calibrated < 0.3 * nearest


def test_scales_are_the_square_root_of_weights_relative_to_inputs():
    torch.manual_seed(0)
    weights = [torch.randn(OUTPUTS, INPUTS), torch.randn(20, INPUTS)]
    other = torch.randn(30, INPUTS)
    squares = uneven(100).square().sum(0)
    same = {weight: squares.clone() for weight in weights}
    scales = column_scales([*weights, other], {**same, other: squares + 1})
    assert torch.equal(scales[weights[0]], scales[weights[1]])
    assert not torch.equal(scales[weights[0]], scales[other])
    seen = squares > 0
    largest = torch.cat(weights).abs().amax(0)
    expected = (largest / squares.sqrt()).sqrt()[seen]
    actual = scales[weights[0]][seen]
    assert_close(actual / actual[0], expected / expected[0])
    assert bool(scales[weights[0]].isfinite().all()) and scales[weights[0]].min() > 0


def test_a_calibrated_model_is_nearer_to_float32_and_the_fast_one_equals_it():
    model = uneven_gpt()
    torch.manual_seed(4)
    tokens, fresh = torch.randint(300, (8, 30)), torch.randint(300, (3, 20))
    with torch.no_grad():
        expected = model(fresh)
        nearest = quantize(deepcopy(model), "int8")
        small = calibrated(deepcopy(model), tokens)
        assert all(hasattr(m, COLUMNS) for n, m in linears(small).items() if n != "output")
        # its matrix is that of the embedding, of which rows are looked up
        assert not hasattr(small.output, COLUMNS)
        before, after = ((m.hidden(fresh) - model.hidden(fresh)).norm() for m in (nearest, small))
        assert after < 0.8 * before  # the embedding is rounded in both
        plain = small(fresh)
        twin = prepare_for_inference(deepcopy(small))
        assert_close(twin(fresh), plain, rtol=1e-4, atol=1e-4)
        attention = twin.decoder.blocks[1].attention
        assert attention.query.packed is attention.key.packed is attention.value.packed
        assert_close(dequantize(deepcopy(small))(fresh), expected, rtol=0.05, atol=0.05)


def test_layers_whose_columns_differ_are_computed_one_by_one():
    torch.manual_seed(4)  # whose inputs are not half-way between two codes for any product
    typical, tokens = torch.randint(300, (8, 30)), torch.randint(300, (3, 20))
    model = calibrated(uneven_gpt(), typical)
    with torch.no_grad():
        attention = model.decoder.blocks[0].attention
        attention.key.weight_columns *= 2
        attention.key.weight_scale /= 2
        plain = model(tokens)
        twin = prepare_for_inference(deepcopy(model))
        assert_close(twin(tokens), plain, rtol=1e-4, atol=1e-4)
    attention = twin.decoder.blocks[0].attention
    assert attention.query.packed is not attention.key.packed


def test_adapters_have_the_gradient_of_the_matrix_that_the_numbers_stand_for():
    layer = nn.Sequential(nn.Linear(INPUTS, OUTPUTS))
    quantize(layer, "int8", calibrate=partial(layer, uneven(50)))
    x = torch.randn(4, INPUTS, requires_grad=True)
    (expected,) = torch.autograd.grad((x @ layer[0].weight.T).sum(), x)
    for model in (layer, fast(deepcopy(layer))):
        (actual,) = torch.autograd.grad(model(x).sum(), x)
        assert_close(actual, expected)


@pytest.fixture
def folder(tmp_path):
    bundle = TextBundle(uneven_gpt(vocabulary=bundles.TOKENIZER.size), bundles.TOKENIZER)
    calibrated(bundle.model, torch.randint(bundles.TOKENIZER.size, (8, 30)))
    bundle.save(tmp_path / "m")
    return tmp_path / "m"


def test_a_saved_calibrated_model_loads_as_itself(folder):
    torch.manual_seed(0)  # whose inputs are not half-way between two codes for any product
    tokens = torch.randint(bundles.TOKENIZER.size, (3, 20))
    models = [headway.load(folder, fast=is_fast).model for is_fast in (False, True)]
    assert sum(name.endswith(COLUMNS) for name, _ in models[0].named_parameters()) == 2 * 6
    with torch.no_grad():
        assert_close(models[1](tokens), models[0](tokens), rtol=1e-4, atol=1e-4)
    for name, value in models[0].named_parameters():
        assert torch.equal(models[1].state_dict()[name], value), name


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("decoder.blocks.0.feedforward.expand", lambda c: c * float("nan"), "not finite"),
        ("decoder.blocks.0.feedforward.expand", lambda c: c[:-1], "has shape"),
        ("embedding.tokens", None, "unknown tensor"),
    ],
)
def test_damaged_scales_of_columns_are_refused_by_name(folder, name, change, message):
    path = folder / WEIGHTS_FILE
    (folder / MANIFEST).unlink()
    tensors = load_file(path)
    key = f"{name}.{COLUMNS}"
    tensors[key] = torch.ones(48) if change is None else change(tensors[key]).contiguous()
    save_file(tensors, path)
    with pytest.raises(DataError, match=message) as raised:
        headway.load(folder)
    assert key in str(raised.value)
