"""Models in small numbers: rounding, products, files, memory, and gradients for adapters."""

from copy import deepcopy
from functools import partial
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, HeadwayWarning
from headway.base.folders import MANIFEST
from headway.blocks import FeedForward
from headway.bundle import TextBundle
from headway.bundle.files import WEIGHTS_FILE
from headway.transforms import dequantize, fast, is_quantized, lora, merge_lora, quantize
from headway.transforms.fast import loops
from headway.transforms.fast.linear import LOOPED_ROWS
from headway.transforms.fast.memory import contiguous_parameters
from headway.transforms.fast.quantized import release_codes
from headway.transforms.fast.table import prepare_for_inference
from headway.transforms.quantize import GROUPS, NUMBERS, numbers_of, prepare
from headway.transforms.quantize.layers import LINEARS, Int8Linear, QuantizedLinear
from headway.transforms.quantize.numbers import Int4, Int8
from tests.fixtures import bundles, zoo
from tests.fixtures.rounding import errors, gpt

INPUTS, OUTPUTS = 90, 70  # no multiple of a group, of a register, or of each other
KINDS = sorted(NUMBERS)


def weight(rows=OUTPUTS, columns=INPUTS):
    return torch.randn(rows, columns) * torch.linspace(0.1, 3, rows)[:, None]


def linear(kind, columns=INPUTS, rows=OUTPUTS):
    plain = nn.Linear(columns, rows)
    return LINEARS[kind].of(plain, NUMBERS[kind].encode(plain.weight.detach()))


def test_int8_rounds_each_weight_to_the_nearest_step_of_its_group():
    matrix = weight()
    matrix[3] = 0
    stored = Int8.encode(matrix)
    error = (Int8.decode(stored)[:, :INPUTS] - matrix).abs()
    for start in range(0, INPUTS, 32):
        largest = matrix[:, start : start + 32].abs().amax(1, keepdim=True)
        of_group, step = error[:, start : start + 32], largest / 127
        # the scale is rounded to bfloat16, by at most 1/256, which moves the largest weight
        assert bool((of_group <= step / 2 + largest / 256 + 1e-6).all())
        assert bool((of_group > step / 4).any())
    assert torch.equal(error[3], torch.zeros(INPUTS))
    assert stored["weight_int8"].shape == (OUTPUTS, 96)
    assert stored["weight_scale"].shape == (OUTPUTS, 3)


@pytest.mark.parametrize("group", GROUPS)
def test_int4_rounds_each_weight_to_one_of_16_steps_of_its_group(group):
    matrix = weight()
    stored = Int4.encode(matrix, group)
    decoded = Int4.decode(stored)[:, :INPUTS]
    for start in range(0, INPUTS, group):
        part = matrix[:, start : start + group]
        step = (part.amax(1) - part.amin(1))[:, None] / 15
        error = (decoded[:, start : start + group] - part).abs()
        # scale and centre are rounded to bfloat16, by at most 1/256 each
        assert bool((error <= 0.5 * step + part.abs().amax(1, keepdim=True) / 40).all())
    assert stored["weight_int4"].shape == (OUTPUTS, -(-INPUTS // group) * group // 2)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_without_compiled_loops_the_fast_layer_computes_as_the_plain_one(kind, monkeypatch):
    model = nn.Sequential(linear(kind))
    x, names = torch.randn(4, INPUTS), [name for name, _ in model.named_parameters()]
    monkeypatch.setattr(loops, "instructions", lambda: loops.NONE)
    twin = prepare_for_inference(deepcopy(model))
    with torch.no_grad():
        assert_close(twin(x), model(x), rtol=1e-5, atol=1e-5)
    assert [name for name, _ in twin.named_parameters()] == names
    assert not twin[0].is_released and torch.equal(twin[0].weight, model[0].weight)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fast_layer_equals_its_plain_class(kind):
    plain = linear(kind)
    twin = fast(deepcopy(plain))
    x = torch.randn(2, 5, INPUTS, requires_grad=True)
    results = []
    for layer in (plain, twin):
        y = layer(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), (x, layer.bias))))
    for expected, actual in zip(*results, strict=True):
        # products of codes are those of the same integers; bfloat16 may round its inputs
        error = (actual - expected).norm() / expected.norm()
        assert error < (0.01 if kind == "bfloat16" else 1e-5)
    with torch.no_grad():
        tolerance = 0.02 if kind == "bfloat16" else 1e-6
        assert_close(twin(x), results[1][0], rtol=tolerance, atol=tolerance)


def mixes(rows):
    """Batches in which one row stands beside others, some of which are 50 times as large."""
    generator = torch.Generator().manual_seed(5)
    for size in (1, 2, 3, 7, 16, 40):
        others = torch.randn(size - 1, INPUTS, generator=generator)
        others[::2] *= 50
        at = int(torch.randint(size, (), generator=generator))
        yield at, torch.cat((others[:at], rows, others[at:]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_a_row_has_the_same_bits_alone_and_in_any_batch(kind):
    layer, row = fast(linear(kind)), torch.randn(1, INPUTS)
    with torch.no_grad():
        alone = layer(row)[0]
        for at, batch in mixes(row):
            if kind == "bfloat16" and len(batch) > LOOPED_ROWS:
                continue  # torch's product, which rounds inputs
            assert torch.equal(layer(batch)[at], alone)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantised_network_computed_in_blocks_has_the_same_bits(kind, monkeypatch):
    network = nn.Sequential(FeedForward(INPUTS, OUTPUTS)).eval()
    x = torch.randn(3, 11, INPUTS)
    prepare_for_inference(quantize(network, kind))
    with torch.no_grad():
        whole = network(x)
        monkeypatch.setattr(import_module("headway.transforms.fast.feedforward"), "ROWS", 4)
        if kind != "bfloat16":  # whose product is one call that keeps nothing
            monkeypatch.setattr(FeedForward, "forward", refuse_more_than_rows(4))
        assert torch.equal(network(x), whole)


def refuse_more_than_rows(most):
    forward = FeedForward.forward

    def checked(self, x):
        assert x.numel() // x.shape[-1] <= most
        return forward(self, x)

    return checked


def test_a_scale_for_the_whole_batch_fails_the_same_test():
    """This is why rows are scaled one by one: torch's dynamic int8 layer depends on the batch."""
    matrix, row = weight(), torch.randn(1, INPUTS)

    def scaled_by_batch(x):
        step = x.abs().max() / 127
        return (x / step).round() * step @ matrix.T

    alone = scaled_by_batch(row)[0]
    assert any(
        not torch.allclose(scaled_by_batch(batch)[at], alone, rtol=1e-3) for at, batch in mixes(row)
    )


def test_a_large_input_coarsens_only_the_inputs_of_its_group():
    layer, x = linear("int8"), torch.randn(1, INPUTS)
    with torch.no_grad():
        exact, twin = F.linear(x, layer.weight, layer.bias), fast(deepcopy(layer))
        small = (twin(x) - exact).norm()
        large = x.clone()
        large[0, 40] += 1000
        change = 1000 * layer.weight[:, 40]
        # its own rounding changes nothing: the largest of a group is a code
        error = (twin(large) - change - exact).norm()
        rounded_whole = (x / (1000 / 127)).round() * (1000 / 127)
        coarse = (F.linear(rounded_whole, layer.weight, layer.bias) - exact).norm()
    assert small < error < 0.8 * coarse


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_keeps_names_ties_and_nearly_its_outputs(kind):
    model = gpt()
    small = quantize(deepcopy(model), kind)
    tokens = torch.randint(300, (3, 20))
    with torch.no_grad():
        expected, actual = model(tokens), small(tokens)
    limit = {"int8": 0.02, "int4": 0.25, "bfloat16": 0.01}[kind]
    assert 0 < float((actual - expected).norm() / expected.norm()) < limit
    assert numbers_of(small) == kind and not is_quantized(model)
    names = {name.removesuffix(".weight") for name, _ in model.named_parameters()}
    stored = {name.rpartition(".weight_")[0] or name for name, _ in small.named_parameters()}
    assert stored == names
    first = NUMBERS[kind].names[0]
    assert getattr(small.output, first) is getattr(small.embedding.tokens, first)
    assert {n: p.dtype for n, p in small.named_parameters()}["decoder.norm.gain"] == torch.float32
    back = dequantize(deepcopy(small))
    assert back.output.weight is back.embedding.tokens.weight and not is_quantized(back)
    assert [n for n, _ in back.named_parameters()] == [n for n, _ in model.named_parameters()]
    for name, parameter in back.named_parameters():
        assert_close(parameter, small.get_parameter(name) if "norm" in name else parameter)


@pytest.mark.parametrize("kind", KINDS)
def test_fast_models_keep_their_codes_once_and_are_saved_with_them(kind):
    small = quantize(gpt(tie_output=False), kind)
    model = fast(deepcopy(small))
    contiguous_parameters(model)
    tokens = torch.randint(300, (3, 20))
    with torch.no_grad():
        before = model(tokens)
        release_codes(model)
        assert torch.equal(model(tokens), before)
        assert torch.equal(deepcopy(model)(tokens), before)
    if kind != "bfloat16" and loops.instructions():
        assert model.decoder.blocks[0].attention.query.is_released
        assert not getattr(model.output, NUMBERS[kind].names[0]).numel()
    for name, value in small.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    moved = model.to(torch.device("cpu"))
    for name, parameter in small.named_parameters():
        assert torch.equal(dict(moved.named_parameters())[name], parameter), name


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_model_decodes_in_int8_as_it_reads_at_once(name, monkeypatch):
    monkeypatch.setattr(import_module("headway.transforms.quantize"), "SMALLEST", 1)
    family = zoo.MODELS[name]
    torch.manual_seed(1)
    plain = quantize(family.plain(), "int8")
    twin = fast(deepcopy(plain))
    rows, read = zoo.some_rows(3), torch.randint(3, zoo.VOCABULARY, (3, 4))
    with torch.no_grad():
        full = family.full(plain, rows, read)
        assert_close(family.full(twin, rows, read), full, rtol=0, atol=4e-2)
        state = twin.start(*family.inputs(rows))
        start = full.shape[1] - read.shape[1]
        for t in range(read.shape[1]):
            logits, state = twin.step(read[:, t : t + 1], state)
            assert_close(logits[:, -1], full[:, start + t], rtol=0, atol=4e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_small_and_loads_as_itself(kind, tmp_path):
    bundle = TextBundle(gpt(vocabulary=bundles.TOKENIZER.size, model_dim=96), bundles.TOKENIZER)
    bundle.save(tmp_path / "float32")
    expected = (tmp_path / "float32" / WEIGHTS_FILE).stat().st_size
    small = headway.load(tmp_path / "float32", dtype=kind)
    small.save(tmp_path / kind)
    # norms, biases and positions are a larger fraction of this model than of a real one
    limit = {"int8": 0.32, "int4": 0.22, "bfloat16": 0.54}[kind]
    assert (tmp_path / kind / WEIGHTS_FILE).stat().st_size < limit * expected
    reloaded = headway.load(tmp_path / kind)
    prompt = ["the fox eats"]
    texts = [b.generate(prompt, max_tokens=8, temperature=0)[0][0] for b in (small, reloaded)]
    assert texts[0] == texts[1]
    plain = headway.load(tmp_path / kind, fast=False)
    for name, value in plain.model.named_parameters():
        assert torch.equal(value, small.model.state_dict()[name]), name
    whole = headway.load(tmp_path / kind, dtype="float32")
    assert not is_quantized(whole.model)
    with pytest.raises(ValueError, match="quantised already"):
        quantize(reloaded.model, "int8")


def test_on_a_gpu_small_numbers_are_said_to_be_slow(tmp_path, monkeypatch):
    bundles.gpt().save(tmp_path / "m")
    opening = import_module("headway.tasks.opening")
    monkeypatch.setattr(opening.CudaRecorder, "device_type", "cpu")
    headway.load(tmp_path / "m", dtype="bfloat16")
    with pytest.warns(HeadwayWarning, match="int8 saves memory on a GPU, and is slower"):
        headway.load(tmp_path / "m", dtype="int8")


@pytest.mark.parametrize("group", GROUPS)
def test_the_shapes_of_int4_follow_from_the_stored_tensors_for_any_row(group):
    for columns in range(8, 201):
        stored = Int4.encode(torch.randn(2, columns), group)
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(columns, 2, bias=False))
        prepare(model, {f"0.{name}": value for name, value in stored.items()})
        shapes = {name: value.shape for name, value in model[0].named_parameters()}
        assert shapes == {name: value.shape for name, value in stored.items()}, columns


@pytest.mark.parametrize("group", GROUPS)
def test_a_model_whose_rows_are_one_group_of_int4_loads_as_itself(group, tmp_path):
    bundle = TextBundle(gpt(vocabulary=bundles.TOKENIZER.size, model_dim=64), bundles.TOKENIZER)
    quantize(bundle.model, "int4", group=group)
    bundle.save(tmp_path / "m")
    reloaded = headway.load(tmp_path / "m", fast=False)
    for name, value in bundle.model.named_parameters():
        assert torch.equal(value, reloaded.model.state_dict()[name]), name


@pytest.mark.parametrize(("groups", "width"), [(0, 64), (1, 1024), (2, 1024), (3, 96), (32, 64)])
def test_int4_with_groups_that_the_row_cannot_have_is_refused(groups, width, tmp_path):
    bundle = TextBundle(gpt(vocabulary=bundles.TOKENIZER.size, model_dim=64), bundles.TOKENIZER)
    quantize(bundle.model, "int4")
    bundle.save(tmp_path / "m")
    path, name = tmp_path / "m" / WEIGHTS_FILE, "decoder.blocks.0.feedforward.expand.weight_"
    (tmp_path / "m" / MANIFEST).unlink()
    tensors = load_file(path)
    rows = len(tensors[f"{name}int4"])
    tensors[f"{name}int4"] = torch.zeros(rows, width // 2, dtype=torch.uint8)
    for part in ("scale", "centre"):
        tensors[f"{name}{part}"] = torch.ones(rows, groups, dtype=torch.bfloat16)
    save_file(tensors, path)
    with pytest.raises(DataError, match="has shape"):
        headway.load(tmp_path / "m")


def test_a_damaged_file_of_small_numbers_is_refused_by_name(tmp_path):
    bundle = TextBundle(gpt(vocabulary=bundles.TOKENIZER.size), bundles.TOKENIZER)
    quantize(bundle.model, "int8")
    bundle.save(tmp_path / "m")
    path = tmp_path / "m" / WEIGHTS_FILE
    (tmp_path / "m" / MANIFEST).unlink()
    tensors = load_file(path)
    name = "decoder.blocks.0.feedforward.expand.weight_int8"
    for value, message in (
        (tensors[name].float(), "has dtype float32, but must have int8"),
        (tensors[name][:-1], "has shape"),
        (None, "lacks the tensor|unknown tensor"),
    ):
        changed = {**tensors, name: value}
        save_file({n: t for n, t in changed.items() if t is not None}, path)
        with pytest.raises(DataError, match=message):
            headway.load(tmp_path / "m")
    scale = name.replace("int8", "scale")
    save_file({**tensors, scale: tensors[scale] * float("nan")}, path)
    with pytest.raises(DataError, match="not finite"):
        headway.load(tmp_path / "m")


def test_gptq_changes_the_outputs_for_its_inputs_less_than_rounding_to_nearest():
    torch.manual_seed(0)
    directions = torch.randn(
        12, INPUTS
    )  # inputs that are linearly dependent, as activations nearly are
    inputs = torch.randn(400, 12) @ directions + 0.1 * torch.randn(400, INPUTS)
    model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS))
    nearest, calibrated = errors(model, "int4", inputs, inputs)
    assert calibrated < 0.5 * nearest


def test_gptq_rounds_each_weight_to_the_nearest_code_if_the_inputs_are_independent():
    model = nn.Sequential(nn.Linear(64, 40))
    weight = model[0].weight.detach().clone()
    quantize(model, "int4", calibrate=partial(model, torch.eye(64)))
    stored = model[0].stored()
    step = stored["weight_scale"].float().repeat_interleave(32, 1)
    error = (model[0].weight - weight).abs()
    inside = (Int4.codes(stored) > 0) & (Int4.codes(stored) < 15)
    assert bool((error[inside] <= step[inside] / 2 + 1e-5).all())
    nearest = (Int4.decode(Int4.encode(weight)) - weight).square().mean()
    assert error.square().mean() < nearest  # grids are narrowed where that is better


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", KINDS)
def test_adapters_are_trained_over_a_frozen_base_of_small_numbers(kind):
    model = fast(lora(quantize(gpt(), kind), rank=4))
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    assert trained and all(".lora_" in name for name in trained)
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    tokens = torch.randint(300, (4, 20))
    losses = []
    for _ in range(30):
        logits = model.train()(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.92 * losses[0]
    for name, value in frozen.items():
        assert torch.equal(model.get_parameter(name), value)
    with torch.no_grad():
        expected = model.eval()(tokens)
        merged = merge_lora(deepcopy(model))
        assert not is_quantized(merged)
        error = (merged(tokens) - expected).norm() / expected.norm()
    assert error < 0.03  # int8 also rounds inputs, which the float32 model does not


def test_unsuitable_models_and_numbers_are_refused():
    with pytest.raises(ValueError, match="must be one of: int8, int4, bfloat16"):
        quantize(gpt(), "int3")
    with pytest.raises(ValueError, match="must be one of: 32, 64, 128"):
        quantize(gpt(), "int4", group=20)
    with pytest.raises(ValueError, match="int8 needs no calibration"):
        quantize(gpt(), "int8", calibrate=lambda: None)
    with pytest.raises(ValueError, match="at least 1,024 weights"):
        quantize(nn.Sequential(nn.Linear(4, 4)), "int8")


class OwnLinear(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2


def test_a_layer_of_a_users_own_class_keeps_its_code():
    model = quantize(nn.Sequential(OwnLinear(64, 64), nn.Linear(64, 64)), "int8")
    assert type(model[0]) is OwnLinear and type(model[1]) is Int8Linear


@pytest.mark.skipif(not loops.instructions(), reason="the loops are not compiled")
@pytest.mark.parametrize("name", ["gpt", "gpt modern", "translator", "captioner", "rnn"])
def test_fast_int8_models_decode_without_dequantising_a_matrix(name, monkeypatch):
    monkeypatch.setattr(import_module("headway.transforms.quantize"), "SMALLEST", 1)
    family = zoo.MODELS[name]
    model = prepare_for_inference(quantize(family.plain(), "int8"))
    rows, read = zoo.some_rows(3), torch.randint(3, zoo.VOCABULARY, (3, 2))

    def refuse(layer):
        raise AssertionError("the whole matrix was dequantised")

    monkeypatch.setattr(QuantizedLinear, "weight", property(refuse))
    with torch.no_grad():
        state = model.start(*family.inputs(rows))
        for t in range(2):
            _, state = model.step(read[:, t : t + 1], state)
