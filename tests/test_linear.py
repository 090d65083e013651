"""Our matrix products against torch's, values and gradients, in every case they tell apart."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from headway import linear as module
from headway.linear import Linear, linear, product

SHAPES = {"large": (6, 40, 96, 80), "small": (2, 3, 5, 7)}  # B T I O


def inputs(shape, dtype=torch.float32):
    b, t, i, o = shape
    x = torch.randn(b, t, i, dtype=dtype, requires_grad=True)
    weight = torch.randn(o, i, dtype=dtype, requires_grad=True)
    return x, weight, torch.randn(o, dtype=dtype, requires_grad=True)


@pytest.fixture
def counted(monkeypatch):
    """How often oneDNN was called."""
    calls = []
    plain = module._onednn
    monkeypatch.setattr(module, "_onednn", lambda *a: (calls.append(1), plain(*a))[1])
    return calls


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("size", SHAPES)
def test_values_and_gradients_are_torchs_in_float64(size, with_bias):
    x, weight, bias = inputs(SHAPES[size])
    given = (x, weight, bias) if with_bias else (x, weight)
    exact = [t.detach().double().requires_grad_() for t in given]
    y, wanted = linear(*given), F.linear(*exact)
    assert_close(y.double(), wanted, rtol=1e-5, atol=1e-4)
    grad = torch.randn_like(y)
    found = torch.autograd.grad(y, given, grad)
    expected = torch.autograd.grad(wanted, exact, grad.double())
    for a, b in zip(found, expected, strict=True):
        assert_close(a.double(), b, rtol=1e-5, atol=1e-3)


def test_large_float32_products_take_onednn_and_nothing_else_does(counted, monkeypatch):
    if not module.available():
        pytest.skip("this torch has no oneDNN")
    x, weight, bias = inputs(SHAPES["large"])
    linear(x, weight, bias).sum().backward()
    assert len(counted) == 3  # forward, and two gradients
    with torch.no_grad():
        linear(x, weight, bias)
    assert len(counted) == 4
    linear(*inputs(SHAPES["large"], torch.float64))
    linear(*inputs(SHAPES["small"]))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    monkeypatch.setattr(module, "available", lambda: False)
    linear(x, weight, bias)
    assert len(counted) == 4


def test_frozen_parts_get_no_gradient():
    x, weight, bias = inputs(SHAPES["large"])
    linear(x, weight.detach(), bias).sum().backward()
    assert weight.grad is None and x.grad is not None and bias.grad is not None
    x, weight, _ = inputs(SHAPES["large"])
    linear(x.detach(), weight).sum().backward()
    assert x.grad is None and weight.grad is not None


def test_product_reads_transposed_views():
    a, b = torch.randn(700, 90), torch.randn(700, 80)
    assert_close(product(a.T, b.T), a.T @ b, rtol=1e-5, atol=1e-3)


def test_rows_may_be_missing():
    assert linear(torch.zeros(0, 96), torch.zeros(80, 96)).shape == (0, 80)


def test_the_layer_is_torchs():
    torch.manual_seed(1)
    ours = Linear(96, 80)
    torch.manual_seed(1)
    theirs = nn.Linear(96, 80)
    x = torch.randn(300, 96)
    assert torch.equal(ours.weight, theirs.weight)
    assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
