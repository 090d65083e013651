"""Our matrix products compared with torch's, values and gradients, in every case."""

import gc
import io
import os
import warnings
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_model, save_model
from torch import nn
from torch.testing import assert_close

from headway.base.tensors import read_tensors, write_tensors
from headway.transforms.fast import joint
from headway.transforms.fast import linear as module
from headway.transforms.fast.joint import linears
from headway.transforms.fast.linear import FastLinear, linear, product
from headway.transforms.fast.memory import contiguous_parameters

SHAPES = {"large": (6, 40, 96, 80), "small": (2, 3, 5, 7)}  # B T I O


def inputs(shape, dtype=torch.float32):
    b, t, i, o = shape
    x = torch.randn(b, t, i, dtype=dtype, requires_grad=True)
    weight = torch.randn(o, i, dtype=dtype, requires_grad=True)
    return x, weight, torch.randn(o, dtype=dtype, requires_grad=True)


@pytest.fixture
def counted(monkeypatch):
    """Return a list with one entry for each call of oneDNN."""
    calls = []
    plain = module.by_onednn
    monkeypatch.setattr(module, "by_onednn", lambda *a: (calls.append(1), plain(*a))[1])
    return calls


@pytest.fixture(params=[True, False], ids=["MKL is fast", "MKL is slow"])
def mkl_is_fast(request, monkeypatch):
    monkeypatch.setattr(module, "mkl_is_fast", lambda: request.param)
    return request.param


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("size", SHAPES)
def test_values_and_gradients_equal_torchs_in_float64(size, with_bias, mkl_is_fast):
    x, weight, bias = inputs(SHAPES[size])
    leaves = (x, weight, bias) if with_bias else (x, weight)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    y, reference = linear(*leaves), F.linear(*exact)
    assert_close(y.double(), reference, rtol=1e-5, atol=1e-4)
    grad = torch.randn_like(y)
    gradients = torch.autograd.grad(y, leaves, grad)
    expected = torch.autograd.grad(reference, exact, grad.double())
    for a, b in zip(gradients, expected, strict=True):
        assert_close(a.double(), b, rtol=1e-5, atol=1e-3)


def test_only_large_float32_products_use_onednn(counted, monkeypatch, mkl_is_fast):
    if not module.available():
        pytest.skip("this torch has no oneDNN")
    x, weight, bias = inputs(SHAPES["large"])
    linear(x, weight, bias).sum().backward()
    assert len(counted) == (0 if mkl_is_fast else 3)  # forward, and the gradients of x and weight
    counted.clear()
    with torch.no_grad():
        linear(x, weight, bias)
        assert len(counted) == (0 if mkl_is_fast else 1)
    counted.clear()
    few_rows = torch.randn(64, 160, requires_grad=True)  # which MKL computes slower
    linear(few_rows, torch.randn(240, 160))
    assert len(counted) == 1
    counted.clear()
    linear(*inputs(SHAPES["large"], torch.float64))
    linear(*inputs(SHAPES["small"]))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    monkeypatch.setattr(module, "available", lambda: False)
    linear(x, weight, bias)
    assert not counted


@pytest.mark.parametrize("rows", [2, 65, 300])
def test_rows_that_must_not_depend_on_their_number_always_use_onednn(rows, counted, mkl_is_fast):
    if not module.available():
        pytest.skip("this torch has no oneDNN")
    layer = FastLinear(96, 80)
    layer.invariant = True
    with torch.no_grad():
        layer(torch.randn(rows, 96))
    assert len(counted) == 1


def test_frozen_parts_get_no_gradient():
    x, weight, bias = inputs(SHAPES["large"])
    linear(x, weight.detach(), bias).sum().backward()
    assert weight.grad is None and x.grad is not None and bias.grad is not None
    x, weight, _ = inputs(SHAPES["large"])
    linear(x.detach(), weight).sum().backward()
    assert x.grad is None and weight.grad is not None


def test_product_reads_transposed_views(mkl_is_fast):
    a, b = torch.randn(700, 90), torch.randn(700, 80)
    assert_close(product(a.T, b.T), a.T @ b, rtol=1e-5, atol=1e-3)


def test_rows_may_be_missing():
    assert linear(torch.zeros(0, 96), torch.zeros(80, 96)).shape == (0, 80)


def test_the_layer_equals_torchs():
    torch.manual_seed(1)
    ours = FastLinear(96, 80)
    torch.manual_seed(1)
    theirs = nn.Linear(96, 80)
    x = torch.randn(300, 96)
    assert torch.equal(ours.weight, theirs.weight)
    assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


class Three(nn.Module):
    def __init__(self, biased=True, dtype=torch.float32):
        super().__init__()
        self.a, self.b = FastLinear(8, 32, bias=biased), FastLinear(8, 64, bias=biased)
        self.c = FastLinear(32, 8, bias=biased)
        self.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [True, False])
def test_layers_with_contiguous_parameters_are_one_product_with_the_same_outputs(
    biased, dtype, monkeypatch
):
    model = Three(biased, dtype)
    x = torch.randn(2, 3, 8, dtype=dtype)
    before = {name: p.clone() for name, p in model.named_parameters()}
    expected = model.a(x), model.b(x)
    contiguous_parameters(model)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    products = []
    monkeypatch.setattr(
        joint,
        "linear",
        lambda *arguments, **layers: (products.append(arguments[1].shape), linear(*arguments))[1],
    )
    with torch.inference_mode():
        outputs = linears(x, (model.a, model.b))
    assert products == [(96, 8)]
    assert_close(outputs, expected)


def test_layers_that_are_trained_hooked_replaced_or_not_contiguous_are_computed_one_by_one():
    x, calls = torch.randn(2, 8), []
    model = Three()
    separate = linears(x, (model.a, model.b))
    contiguous_parameters(model)
    with torch.no_grad():
        assert joint._joined((model.a, model.b)) is not None
        assert joint._joined((model.b, model.a)) is None  # another order
        assert joint._joined((model.a, model.c)) is None  # another input
    assert_close(linears(x, (model.a, model.b)), separate)
    sum(y.sum() for y in linears(x, (model.a, model.b))).backward()
    assert model.a.weight.grad is not None and model.b.bias.grad is not None
    model.a.register_forward_hook(lambda *arguments: calls.append(arguments))
    with torch.no_grad():
        linears(x, (model.a, model.b))
    assert len(calls) == 1
    model = Three()
    contiguous_parameters(model)
    model.b.weight = nn.Parameter(torch.ones(64, 8))
    with torch.no_grad():
        assert_close(linears(x, (model.a, model.b))[1], model.b(x))
        assert joint._joined((model.a, model.b)) is None


def test_one_product_for_several_layers_follows_every_change_of_their_weights():
    x, model = torch.randn(2, 8), Three()
    contiguous_parameters(model)
    layers = (model.a, model.b)

    def check(inputs=x):
        with torch.no_grad():
            assert_close(linears(inputs, layers), tuple(layer(inputs) for layer in layers))

    check()  # from here on the joined weights are remembered
    with torch.no_grad():
        model.a.weight.mul_(2)
    check()
    model.load_state_dict(Three().state_dict())
    check()
    model.double()  # moves them
    check(x.double())
    model.float()
    check()
    contiguous_parameters(model)
    check()
    model.b.bias = nn.Parameter(torch.ones(64))
    check()
    model.b.weight.data = model.b.weight.data[:64].flip(0).contiguous()
    check()


def test_a_model_with_contiguous_parameters_is_saved_and_copied_with_tied_weights(tmp_path):
    model = Three()
    model.c.weight = nn.Parameter(torch.randn(8, 32))
    model.d = FastLinear(32, 8, bias=False)
    model.d.weight = model.c.weight
    contiguous_parameters(model)
    assert model.d.weight is model.c.weight
    write_tensors(tmp_path / "x.safetensors", dict(model.named_parameters()))
    read = read_tensors(tmp_path / "x.safetensors")
    assert all(torch.equal(read[name], p) for name, p in model.named_parameters())
    copied = deepcopy(model)
    with torch.no_grad():
        copied.a.weight.zero_()
    assert bool(model.a.weight.any())


def contiguous_model_with_tied_weights():
    model = Three()
    model.table = nn.Embedding(9, 32)
    model.d = FastLinear(32, 9, bias=False)
    model.d.weight = model.table.weight
    contiguous_parameters(model)
    return model


def test_a_part_of_a_model_with_contiguous_parameters_is_saved_without_the_rest(tmp_path):
    model = contiguous_model_with_tied_weights()
    for parameter in model.parameters():
        assert parameter.untyped_storage().nbytes() == parameter.nbytes
        assert parameter.storage_offset() == 0
    buffer = io.BytesIO()
    torch.save(model.c.state_dict(), buffer)  # a few hundred bytes of names and numbers besides
    alone = io.BytesIO()
    torch.save({name: p.detach().clone() for name, p in model.c.named_parameters()}, alone)
    assert buffer.tell() <= alone.tell() + 64
    save_model(model, str(tmp_path / "all.safetensors"))  # refuses tensors that are views
    loaded = Three()
    loaded.table, loaded.d = nn.Embedding(9, 32), FastLinear(32, 9, bias=False)
    loaded.d.weight = loaded.table.weight
    load_model(loaded, str(tmp_path / "all.safetensors"))
    assert all(
        torch.equal(p, q) for p, q in zip(loaded.parameters(), model.parameters(), strict=True)
    )


def test_parameters_taken_before_they_become_contiguous_are_still_those_of_the_model():
    model = Three()
    parameters, weight = list(model.parameters()), model.a.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    contiguous_parameters(model)
    contiguous_parameters(model)  # twice is harmless
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    linears(torch.ones(1, 8), (model.a, model.b))[0].sum().backward()
    before = weight.detach().clone()
    optimizer.step()
    assert_close(model.a.weight, before - 1)
    with torch.no_grad():
        joined, _ = joint._joined((model.a, model.b))
        assert torch.equal(joined[:32], model.a.weight), "the product reads the updated numbers"
    copied = deepcopy(model.a)
    assert copied.weight.untyped_storage().nbytes() == copied.weight.nbytes
    model.to(torch.bfloat16)
    with torch.no_grad():
        assert joint._joined((model.a, model.b)) is None


def test_a_forked_process_does_not_change_the_weights_of_its_parent():
    model = contiguous_model_with_tied_weights()
    with warnings.catch_warnings():  # Python 3.12 warns where there are threads
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        model.a.weight.data.zero_()
        os._exit(0)
    os.waitpid(child, 0)
    assert bool(model.a.weight.any())


def test_a_parameter_outlives_its_model_and_other_devices_are_left_alone():
    model = Three()
    model.elsewhere = nn.Parameter(torch.ones(3, device="meta"))
    contiguous_parameters(model)
    assert model.elsewhere.device.type == "meta"
    weight, expected = model.b.weight, model.b.weight.detach().clone()
    del model
    gc.collect()
    assert torch.equal(weight, expected)
