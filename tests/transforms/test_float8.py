"""Training in float8: products, gradients, which layers, other transforms, a training.

torch's products of float8 numbers on a CPU make the sums of a GPU in float32. Every size differs.
"""

import statistics
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.models import GPT, GPTConfig
from headway.tasks.language_modeling.packing import TextBatch
from headway.training import (
    Averaging,
    NonFinite,
    OptimizerConfig,
    TextObjective,
    TrainingState,
    WeightAverage,
    fit,
    optimizer,
)
from headway.transforms import fast, float8, lora, merge_lora, not_in_float8, quantize, recompute
from headway.transforms.fast.linear import FastLinear
from headway.transforms.float8 import (
    E4M3,
    E5M2,
    Float8Linear,
    Float8LoRALinear,
    Scaled,
    plain_products,
    product,
    scaled,
)
from tests.fixtures import zoo

GPT_CONFIG = GPTConfig(
    model_dim=32,
    num_heads=2,
    num_layers=2,
    ffn_dim=80,
    dropout=0.0,
    vocabulary=23,
    max_length=13,
    tie_output=False,
)
IN_BLOCKS = 2 * 6
"""Linear layers in its blocks: query, key, value, output, expansion and contraction."""


def gpt(**changes):
    torch.manual_seed(3)
    return fast(GPT(replace(GPT_CONFIG, **changes)))


def float8_layer(bias=True):
    torch.manual_seed(1)
    layer = nn.Linear(48, 80, bias=bias)
    layer.__class__ = Float8Linear
    return layer


def text_batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(23, (5, 1), generator=generator)
    tokens = (starts + 3 * torch.arange(13)) % 23  # the next token is the last one plus 3
    targets = tokens[:, 1:].contiguous()
    return TextBatch(tokens[:, :-1].contiguous(), targets, None, (), targets.numel())


def trained(model, dtype, steps, average=None):
    """Train the model on the CPU; return the losses per token."""
    losses = []

    class Log:
        def after_step(self, run, report):
            losses.append(report.loss)

    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)), average)
    stream = ((0, 0, text_batch(seed)) for seed in range(10**6))
    machine = Machine("cpu", dtype, 1)
    fit(
        run,
        stream,
        TextObjective(),
        [Averaging(), Log()],
        steps=steps,
        precision=machine.precision,
    )
    return losses


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(37,), (1, 5), (3, 2, 16), (1,)])
def test_a_layer_and_its_gradients_equal_the_equations(shape, dtype, bias):
    layer = float8_layer(bias)
    x = torch.randn(*shape, 48).mul(5).to(dtype).requires_grad_()
    dy = torch.randn(*shape, 80).mul(1e-3).to(dtype)
    y = layer(x)
    y.backward(dy)
    rows = x.detach().view(-1, 48), layer.weight.detach(), dy.view(-1, 80).to(torch.bfloat16)
    # without autocast, dy arrives in bfloat16 as y left
    expected_y, expected_dx, expected_dw = plain_products(*rows)
    if bias:
        expected_y = expected_y + layer.bias.detach().bfloat16().float()
        assert_close(layer.bias.grad, rows[2].float().sum(0), rtol=2.0**-8, atol=0)
    results = y.detach().view(-1, 80), x.grad.view(-1, 48), layer.weight.grad
    assert [t.dtype for t in results] == [dtype, dtype, torch.float32]
    for result, expected in zip(results, (expected_y, expected_dx, expected_dw), strict=True):
        close = {"rtol": 2.0**-8, "atol": 2.0**-8 * expected.abs().max().item() / 16}
        assert_close(result.float(), expected, **close)


def test_float8_is_near_float32_for_tensors_of_any_magnitude():
    """A number of 3 fraction bits is wrong by at most 1/16, one of 2 by 1/8."""
    torch.manual_seed(2)
    for magnitude in (1e-20, 1.0, 1e20):
        x, weight, dy = torch.randn(37, 48), torch.randn(80, 48), torch.randn(37, 80) * magnitude
        exact = x @ weight.T, dy @ weight, dy.T @ x
        for rounded, result in zip(plain_products(x, weight, dy), exact, strict=True):
            assert (rounded - result).double().norm() < 0.07 * result.double().norm()


def test_numbers_are_rounded_to_the_nearest_of_the_scaled_dtype():
    x = torch.tensor([[-3.5, 1.0, 0.0], [7.0, 0.3, -0.01]])
    e4m3, e5m2 = scaled(x, E4M3), scaled(x, E5M2)
    assert e4m3.scale == 7 / 448 and e5m2.scale == 7 / 57344
    assert_close(e4m3.value(), x, rtol=1 / 16, atol=0)
    assert_close(e5m2.value(), x, rtol=1 / 8, atol=0)
    assert e4m3.value().abs().max() == e5m2.value().abs().max() == 7


def test_a_transposed_matrix_is_padded_with_zeros_to_a_multiple_of_16():
    for rows, padded in ((1, 16), (16, 16), (37, 48)):
        matrix = scaled(torch.randn(rows, 80), E5M2)
        transposed = matrix.transposed()
        assert transposed.numbers.shape == (80, padded) and transposed.numbers.is_contiguous()
        assert torch.equal(transposed.value()[:, :rows], matrix.value().T)
        assert transposed.value()[:, rows:].count_nonzero() == 0


@pytest.mark.parametrize("rows", [1, 5, 16, 37])
@pytest.mark.parametrize("strides", ["rows", "columns", "one row for all"])
def test_products_have_the_sizes_and_layouts_that_a_gpu_requires(rows, strides, monkeypatch):
    """The conditions of CUDA in torch's `_check_scaled_mm_sizes`; a CPU has none."""
    sizes, own = [], torch._scaled_mm

    def product_of_a_gpu(a, b, *scales, out_dtype, **options):
        sizes.append((*a.shape, b.shape[1]))
        assert a.stride() == (a.shape[1], 1) and b.stride() == (1, b.shape[0])
        assert a.shape[1] % 16 == b.shape[0] % 16 == b.shape[1] % 16 == 0
        assert [s.dtype for s in scales] == [torch.float32] * 2
        assert {a.dtype, b.dtype} != {E5M2} and out_dtype == torch.bfloat16
        return own(a, b, *scales, out_dtype=out_dtype, **options)

    monkeypatch.setattr(torch, "_scaled_mm", product_of_a_gpu)
    layer, x = float8_layer(), torch.randn(rows, 48, requires_grad=True)
    dy = {
        "rows": lambda: torch.randn(rows, 80),
        "columns": lambda: torch.randn(80, rows).t(),
        "one row for all": lambda: torch.randn(80).expand(rows, 80),
    }[strides]()
    layer(x).backward(dy)
    padded = -(-rows // 16) * 16
    assert sizes == [(rows, 48, 80), (rows, 80, 48), (80, padded, 48)]


def test_a_tensor_of_zeros_gives_zeros():
    layer = float8_layer(bias=False)
    x = torch.zeros(5, 48, requires_grad=True)
    y = layer(x)
    y.backward(torch.zeros(5, 80))
    for result in (y, x.grad, layer.weight.grad):
        assert result.isfinite().all() and result.count_nonzero() == 0
    tiny = torch.full((5, 48), 1e-37, requires_grad=True)
    assert layer(tiny).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("bad", ["x", "weight", "dy"])
def test_infinity_and_nan_are_not_hidden_by_saturation(bad, value, dtype):
    layer = float8_layer()
    x = torch.randn(37, 48, dtype=dtype)
    dy = torch.randn(37, 80, dtype=dtype)
    {"x": x, "weight": layer.weight.data, "dy": dy}[bad][3, 5] = value
    x.requires_grad_()
    y = layer(x)
    y.backward(dy)
    assert y.isfinite().all() == (bad == "dy")
    if bad != "x":
        assert not x.grad.isfinite().any()
    if bad != "weight":
        assert not layer.weight.grad.isfinite().any()


def test_only_linear_layers_of_blocks_are_changed_and_parameters_keep_their_names():
    plain = gpt()
    model = float8(deepcopy(plain))
    changed = {n for n, m in model.named_modules() if isinstance(m, Float8Linear)}
    assert len(changed) == IN_BLOCKS
    assert all(name.startswith("decoder.blocks.") for name in changed)
    assert type(model.output) is FastLinear and not_in_float8(model) is None
    before = [(n, type(m)) for n, m in model.named_modules()]
    assert float8(model) is model and [(n, type(m)) for n, m in model.named_modules()] == before
    assert list(model.state_dict()) == list(plain.state_dict())
    assert fast(model) is model and [(n, type(m)) for n, m in model.named_modules()] == before


def test_float8_applies_in_training_only():
    plain = gpt()
    model, tokens = float8(deepcopy(plain)), text_batch().tokens
    assert torch.equal(model.eval()(tokens), plain.eval()(tokens))
    with torch.no_grad():
        assert torch.equal(model.train()(tokens), plain.train()(tokens))
    for one in (model, deepcopy(model)):
        assert not torch.equal(one.train()(tokens), plain.train()(tokens))
        assert_close(one(tokens), plain(tokens), rtol=0, atol=0.1)


def test_layers_with_other_sizes_are_left_out_and_named():
    model = float8(gpt(ffn_dim=40))
    assert sum(isinstance(m, Float8Linear) for m in model.modules()) == IN_BLOCKS - 4
    assert not_in_float8(model) == (
        "of 12 linear layers in the blocks, 4 have a size that is not a multiple of 16 "
        "(the first is decoder.blocks.0.feedforward.expand, 40 x 32)"
    )
    assert trained(model, "float8", 2)


def test_a_model_without_a_layer_for_float8_is_refused():
    with pytest.raises(UsageError, match=r"12 have a size that is not a multiple of 16") as caught:
        float8(gpt(model_dim=24))
    assert caught.value.hint == "--dtype bfloat16"
    with pytest.raises(UsageError, match="no blocks of attention"):
        float8(zoo.MODELS["rnn"].build())
    with pytest.raises(UsageError, match="12 are quantised"):
        float8(lora(quantize(gpt(model_dim=64, ffn_dim=96), "int8"), 2))


def test_a_model_trained_in_float8_is_quantised_as_any_other():
    plain = gpt(model_dim=64, ffn_dim=96)
    models = [quantize(deepcopy(plain), "int8"), quantize(float8(deepcopy(plain)), "int8")]
    states = [model.state_dict() for model in models]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(a, b) for a, b in zip(*(s.values() for s in states), strict=True))


def gradients(model, dtype="float8"):
    model.train().zero_grad()
    batch = text_batch()
    with Machine("cpu", dtype, 1).precision():
        loss = TextObjective()(model, batch).total
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def test_blocks_that_recompute_have_the_same_gradients():
    plain = float8(gpt())
    expected = gradients(plain)
    for model in (float8(recompute(gpt())), recompute(float8(gpt()))):
        for name, grad in gradients(model).items():
            assert torch.equal(grad, expected[name]), name


def test_gradients_of_a_model_are_near_those_of_bfloat16():
    """Without the biases of keys, whose exact gradient is 0: softmax ignores what is added to all
    scores of a query."""
    expected = gradients(gpt(), "bfloat16")
    for name, grad in gradients(float8(gpt())).items():
        if not name.endswith("key.bias"):
            assert (grad - expected[name]).norm() < 0.15 * expected[name].norm(), name


def test_adapters_train_beside_a_frozen_matrix_in_float8():
    for add in (lambda m: fast(lora(m, 4)), lambda m: lora(m, 4)):
        torch.manual_seed(3)
        model = float8(add(GPT(GPT_CONFIG)))
        layers = [m for m in model.modules() if isinstance(m, Float8LoRALinear)]
        assert len(layers) == IN_BLOCKS
        weight = layers[0].weight.clone()
        losses = trained(model, "float8", 40)
        # means, since each step has other sentences; on any processor they fall by 0.1 or more
        assert statistics.fmean(losses[-10:]) < statistics.fmean(losses[:10]) - 0.05
        assert torch.equal(layers[0].weight, weight) and layers[0].weight.grad is None
        merged, tokens = merge_lora(deepcopy(model)).eval(), text_batch().tokens
        assert not any(isinstance(m, Float8Linear) for m in merged.modules())
        assert_close(merged(tokens), model.eval()(tokens), rtol=0, atol=1e-4)


def test_a_training_is_as_good_as_in_bfloat16_and_its_average_is_an_ordinary_model():
    """After 60 steps both losses are below a third of the first; they differ by 10 % at most."""
    narrow = trained(gpt(), "bfloat16", 60)
    model = float8(gpt())
    average = WeightAverage(model, 0.9)
    losses = trained(model, "float8", 60, average)
    assert losses != narrow
    assert losses[-1] < losses[0] / 3 and narrow[-1] < narrow[0] / 3
    assert abs(losses[-1] - narrow[-1]) < 0.1 * narrow[-1]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    restored, tokens = gpt(), text_batch().tokens
    restored.load_state_dict(model.state_dict())
    assert torch.equal(restored.eval()(tokens), model.eval()(tokens))


def test_a_training_with_infinite_weights_is_stopped():
    model = float8(gpt())
    with torch.no_grad():
        model.decoder.blocks[0].feedforward.expand.weight[3, 5] = torch.inf
    with pytest.raises(NonFinite):
        trained(model, "float8", 1)


def test_a_product_of_scaled_matrices_uses_both_scales():
    a, b = Scaled(torch.ones(3, 16).to(E4M3), torch.tensor(2.0)), scaled(torch.ones(5, 16), E4M3)
    assert torch.equal(product(a, b), torch.full((3, 5), 32.0, dtype=torch.bfloat16))
