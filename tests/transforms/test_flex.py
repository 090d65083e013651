"""FlexDot: on a CPU FusedDot's numbers, and its rules for FlexAttention cell by cell."""

import shutil

import pytest
import torch
from torch.nn.attention import flex_attention as torchs
from torch.testing import assert_close

from headway.attention import Mask, ScaledDot
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.flex import FlexDot, compiled, flex_dot, mask_rule
from tests.fixtures.kernel_inputs import KEYS, MASKS, B, H, S, T, inputs

ROWS = {"all": (B, H), "one row": (1, H), "one head": (B, 1), "one for all": (1, 1)}

RULES = {
    **MASKS,
    "different pasts, a window": Mask(causal=True, past=torch.tensor([2, 0]), window=3),
    "different pasts, window and padding": Mask(True, 2, KEYS, torch.tensor([2, 0])),
}


@pytest.fixture
def uncompiled(monkeypatch):
    """Return flex_attention without a compiler."""
    monkeypatch.setattr(torchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    return torchs.flex_attention


@torch.no_grad()
@pytest.mark.parametrize("shape", [None, *ROWS.values()], ids=["none", *ROWS])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_flex_attention_with_our_rules_equals_the_reference(uncompiled, mask, shape):
    q, k, v = inputs(torch.float64)
    bias = None if shape is None else torch.randn(*shape, T, S, dtype=torch.float64)
    actual = flex_dot(q, k, v, mask, bias, uncompiled)
    assert_close(actual, ScaledDot()(q, k, v, mask, bias), rtol=0, atol=1e-10)


@torch.no_grad()
def test_many_blocks_of_queries_and_keys_equal_the_reference_too(uncompiled):
    q, k = torch.randn(B, H, 150, 8), torch.randn(B, H, 300, 8)
    keys = torch.arange(300) < torch.tensor([[300], [140]])
    for mask in (Mask(causal=True), Mask(causal=True, window=70, keys=keys), Mask(keys=keys)):
        actual = flex_dot(q, k, k, mask, None, uncompiled)
        assert_close(actual, ScaledDot()(q, k, k, mask), rtol=0, atol=2e-6)


@torch.no_grad()
def test_heads_that_share_keys_equal_heads_with_copies_of_them(uncompiled):
    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)
    actual = flex_dot(q, k, v, Mask(causal=True), None, uncompiled)
    copies = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
    expected = ScaledDot()(q, *copies, Mask(causal=True))
    assert_close(actual, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_flex_attention_is_zero_for_a_query_that_may_attend_to_nothing(uncompiled):
    context = flex_dot(*inputs(), MASKS["a sequence without keys"], None, uncompiled)
    assert torch.equal(context[1], torch.zeros_like(context[1]))
    assert bool((context[0] != 0).all())


@pytest.mark.parametrize("mask", RULES.values(), ids=RULES)
def test_the_rule_equals_the_dense_mask_cell_by_cell(mask):
    rule = mask_rule(mask, *inputs()[:2])
    cells = torch.meshgrid(*map(torch.arange, (B, 1, T, S)), indexing="ij")
    assert torch.equal(rule(*cells), mask.dense(T, S).expand(B, 1, T, S))


def test_on_a_cpu_it_is_fused_dot_with_its_gradients():
    q, k, v = (x.requires_grad_() for x in inputs())
    mask = MASKS["causal and padded"]
    actual, expected = FlexDot()(q, k, v, mask), FusedDot()(q, k, v, mask)
    assert torch.equal(actual, expected)
    grads = (torch.autograd.grad(x.sum(), (q, k, v)) for x in (actual, expected))
    for ours, theirs in zip(*grads, strict=True):
        assert torch.equal(ours, theirs)


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("shape", [None, (B, H), (1, 1)])
def test_compiled_for_a_cpu_all_masks_equal_the_reference(shape):
    q, k, v = (torch.randn(B, H, n, 16) for n in (T, S, S))
    bias = None if shape is None else torch.randn(*shape, T, S)
    for mask in MASKS.values():
        actual = flex_dot(q, k, v, mask, bias, compiled())
        assert_close(actual, ScaledDot()(q, k, v, mask, bias), rtol=0, atol=5e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [None, *ROWS.values()], ids=["none", *ROWS])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_on_a_gpu_numbers_and_gradients_are_the_references(mask, shape):
    """In float32; widths of 16 and 32, the least that FlexAttention takes there."""
    device = torch.device("cuda")
    parts = (mask.keys, mask.past)
    keys, past = (None if part is None else part.to(device) for part in parts)
    mask = Mask(causal=mask.causal, window=mask.window, keys=keys, past=past)
    grads = []
    for kernel in (FlexDot(), ScaledDot()):
        torch.manual_seed(3)
        sizes = [(B, H, T, 16), (B, H, S, 16), (B, H, S, 32)]
        sizes += [] if shape is None else [(*shape, T, S)]
        leaves = [torch.randn(size, device=device, requires_grad=True) for size in sizes]
        bias = leaves[3] if len(leaves) > 3 else None
        out = kernel(*leaves[:3], mask, bias)
        out.backward(torch.linspace(-1, 1, out.numel(), device=device).view_as(out))
        grads.append([out, *(leaf.grad for leaf in leaves)])
    for actual, expected in zip(*grads, strict=True):
        assert_close(actual, expected, rtol=0, atol=1e-4)
