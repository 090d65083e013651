"""The ways of the fast scaled dot product: short, blocks and torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.attention import Mask, ScaledDot
from headway.transforms.fast import blocks
from headway.transforms.fast import dot as fused
from headway.transforms.fast.dot import FusedDot
from tests.fixtures.kernel_inputs import MASKS, B, H, K, S, T, inputs

# scores of a block, for 3 heads of 5 x 7 in each of 2 rows: a head, two heads, a row, all
BLOCKS = [1, 70, 105, 1000]


@pytest.fixture(params=["short", "blocks", "sdpa"])
def path(request, monkeypatch):
    monkeypatch.setattr(fused, "SHORT", 128 if request.param == "short" else 0)
    monkeypatch.setattr(fused, "_multiplies_fast", lambda *_: request.param == "blocks")
    return request.param


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("wide", [1, 64])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_all_fast_paths_equal_the_reference_with_their_gradients(
    monkeypatch, path, mask, wide, block
):
    monkeypatch.setattr(blocks, "WIDE", wide)
    monkeypatch.setattr(blocks, "MANY", 1)
    monkeypatch.setattr(blocks, "BLOCK", block)
    bias = torch.randn(B, H, T, S, dtype=torch.float64)
    grads = []
    for kernel in (ScaledDot(), FusedDot()):
        torch.manual_seed(3)
        leaves = [x.requires_grad_() for x in (*inputs(torch.float64), bias.clone())]
        assert fused.path(leaves[0], leaves[1], is_masked=True) == path
        out = kernel(*leaves[:3], mask, leaves[3])
        out.backward(torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out))
        assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
        with torch.no_grad():
            grads.append([out, kernel(*leaves[:3], mask), *(leaf.grad for leaf in leaves)])
    for expected, result in zip(*grads, strict=True):
        assert_close(result, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1, T, S), (1, H, T, S), (B, 1, T, S)])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_shared_bias_gets_the_gradient_of_all_that_share_it(monkeypatch, shape, block):
    monkeypatch.setattr(blocks, "BLOCK", block)
    grads = []
    for kernel in (ScaledDot(), FusedDot()):
        torch.manual_seed(3)
        bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        out = kernel(*inputs(torch.float64), Mask(), bias)
        out.backward(torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out))
        grads.append(bias.grad)
    assert_close(*grads, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("length", "heads"), [(100, 48), (197, 6), (600, 2)])
def test_long_sequences_have_the_numbers_and_gradients_of_float64(length, heads):
    """By the way and the library that this processor has for them."""
    q, k, v = (torch.randn(2, heads, length, 64) for _ in range(3))
    mask = Mask(causal=True, keys=torch.arange(length) < torch.tensor([[length], [length - 9]]))
    grad = torch.randn(2, heads, length, 64)
    results = []
    for kernel, dtype in ((ScaledDot(), torch.float64), (FusedDot(), torch.float32)):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in (q, k, v)]
        out = kernel(*leaves, mask)
        out.backward(grad.to(dtype))
        results.append([out, *(leaf.grad for leaf in leaves)])
    for expected, result in zip(*results, strict=True):
        assert_close(result, expected.float(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("length", [20, 160])
@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize(
    "dtypes", [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)]
)
def test_values_may_have_another_dtype_than_queries_and_keys(monkeypatch, length, autocast, dtypes):
    monkeypatch.setattr(fused, "_multiplies_fast", lambda *_: True)
    of_scores, of_values = dtypes
    q, k, v = (torch.randn(2, 3, length, 16) for _ in range(3))
    leaves = [
        x.to(d).requires_grad_()
        for x, d in zip((q, k, v), (of_scores, of_scores, of_values), strict=True)
    ]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = FusedDot()(*leaves, Mask())
    out.sum().backward()
    assert out.dtype == of_values
    assert [leaf.grad.dtype for leaf in leaves] == [leaf.dtype for leaf in leaves]
    assert_close(out.float(), ScaledDot()(q, k, v, Mask()), rtol=0, atol=0.05)


def test_weights_that_are_computed_again_are_not_kept(monkeypatch):
    """Only inputs are kept: memory grows with the length, not with its square."""
    monkeypatch.setattr(fused, "_multiplies_fast", lambda *_: True)
    q = torch.randn(1, 2, 160, 8, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        FusedDot()(q, q, q, Mask())
    assert {x.numel() for x in kept if x is not None} == {q.numel()}


def test_the_short_path_passes_a_gradient_check():
    q, k, v = (x[:1, :2].requires_grad_() for x in inputs(torch.float64))
    added = torch.randn(1, 1, T, S, dtype=torch.float64, requires_grad=True)

    def context(q, k, v, added):
        return FusedDot()(q, k, v, Mask(), added)

    assert torch.autograd.gradcheck(context, (q, k, v, added))


@pytest.mark.parametrize("is_fast", [False, True])
def test_the_path_on_a_cpu_follows_from_the_length_and_the_speed_of_products(monkeypatch, is_fast):
    monkeypatch.setattr(fused, "_multiplies_fast", lambda *_: is_fast)
    products = "blocks" if is_fast else "sdpa"
    ways = {40: ("short", "short"), 300: (products, products), 1300: (products, "sdpa")}
    for length, (way, causal_way) in {**ways, 2100: ("sdpa", "sdpa")}.items():
        sequence = torch.zeros(1, 1, length, 4)
        assert fused.path(sequence, sequence, is_masked=False) == way
        assert fused.path(sequence, sequence, is_masked=True, is_causal=True) == causal_way


def test_the_last_token_of_few_texts_is_one_operation_unless_masked_or_trained():
    last, keys, shared = (
        torch.zeros(8, 16, 1, 4),
        torch.zeros(8, 16, 40, 4),
        torch.zeros(8, 2, 40, 4),
    )
    with torch.no_grad():
        assert fused.path(last, keys, is_masked=False) == "sdpa"
        assert fused.path(last, keys, is_masked=True) == "short"  # rounds alike for any length
        assert fused.path(last, shared, is_masked=False) == "short"
        many = fused.FEW_HEADS // 16 + 1
        assert fused.path(last[:1].expand(many, -1, -1, -1), keys, is_masked=False) == "short"
    assert fused.path(last, keys, is_masked=False) == "short"


def test_the_last_token_of_few_texts_gets_the_reference_context():
    q, k, v = (torch.randn(2, H, length, K) for length in (1, S, S))
    with torch.inference_mode():
        assert_close(
            FusedDot()(q, k, v, Mask(causal=True)), ScaledDot()(q, k, v, Mask(causal=True))
        )


@pytest.mark.parametrize("num_keys", [3, blocks.FEW_KEYS, blocks.FEW_KEYS + 1])
def test_the_last_token_of_many_texts_gets_the_reference_context(num_keys):
    many = fused.FEW_HEADS // 2 + 1
    q, k, v = (torch.randn(many, 2, length, K) for length in (1, num_keys, num_keys))
    mask = Mask(keys=torch.arange(num_keys) < torch.randint(1, num_keys + 1, (many, 1)))
    with torch.inference_mode():
        assert fused.path(q, k, is_masked=True) == "short"
        assert_close(FusedDot()(q, k, v, mask), ScaledDot()(q, k, v, mask))


def test_long_sentences_call_only_torchs_fused_kernel(monkeypatch):
    monkeypatch.setattr(fused, "_multiplies_fast", lambda *_: False)
    calls = []
    original = F.scaled_dot_product_attention

    def recorded(*args, **kwargs):
        calls.append(kwargs)
        return original(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", recorded)
    q = torch.randn(1, 2, 160, 8)
    context = FusedDot()(q, q, q, Mask(causal=True))
    assert calls == [{"is_causal": True, "enable_gqa": False}]
    assert_close(context, ScaledDot()(q, q, q, Mask(causal=True)), rtol=0, atol=2e-6)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("causal", [True, False])
def test_without_gradients_torchs_kernel_computes_where_mkl_is_fast(groups, causal, monkeypatch):
    monkeypatch.setattr(fused, "mkl_is_fast", lambda: True)
    q = torch.randn(3, 6, 7, 8)
    k, v = (torch.randn(3, groups, 7, 8) for _ in range(2))
    keys = torch.arange(7) < torch.tensor([[7], [4], [0]])  # the last text has none
    for mask in (Mask(causal=causal), Mask(keys=keys, causal=causal)):
        with torch.inference_mode():
            assert fused.path(q, k, is_masked=True) == "sdpa"
            assert_close(FusedDot()(q, k, v, mask), ScaledDot()(q, k, v, mask))
    assert fused.path(q, k, is_masked=True) == "short"  # gradients are wanted
