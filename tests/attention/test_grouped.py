"""Query heads that share keys and values, compared with copies of the shared heads."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import (
    GroupedQueryAttention,
    Mask,
    MultiHeadAttention,
    Rotary,
    ScaledDot,
    record_attention,
)
from headway.attention.kernel import spread
from headway.blocks import RMSNorm
from headway.transforms import fast
from headway.transforms.fast import blocks
from headway.transforms.fast import dot as fused_module
from headway.transforms.fast.cache import FastCache
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.flex import FlexDot
from tests.fixtures.steps import attend

B, T, S, D, H, G, K = 2, 5, 7, 24, 6, 2, 4


def with_copied_heads(grouped: GroupedQueryAttention) -> MultiHeadAttention:
    """Return multi-head attention with H / G copies of each shared head."""
    plain = MultiHeadAttention(D, H, positions=grouped.positions)
    weights = grouped.state_dict()
    for part in ("key", "value"):
        for kind in ("weight", "bias"):
            heads = weights[f"{part}.{kind}"].unflatten(0, (G, K))
            weights[f"{part}.{kind}"] = heads.repeat_interleave(H // G, 0).flatten(0, 1)
    plain.load_state_dict(weights)
    return plain


def test_shared_heads_equal_copied_heads():
    grouped = GroupedQueryAttention(D, H, G, positions=Rotary(K))
    x = torch.randn(B, T, D)
    mask = Mask(causal=True)
    assert_close(grouped(x, x, mask), with_copied_heads(grouped)(x, x, mask), rtol=0, atol=1e-6)


@pytest.mark.parametrize("block", [1, 100, 10_000])
@pytest.mark.parametrize("path", ["short", "blocks", "sdpa"])
@pytest.mark.parametrize("kernel", [FusedDot(), FlexDot()])
def test_the_fused_kernels_and_their_gradients_equal_the_reference_on_copies(
    kernel, path, block, monkeypatch
):
    monkeypatch.setattr(fused_module, "path", lambda *_: path)
    monkeypatch.setattr(blocks, "BLOCK", block)
    results = []
    for ours in (True, False):
        torch.manual_seed(1)
        q, k, v, bias = (
            torch.randn(*shape, dtype=torch.float64, requires_grad=True)
            for shape in ((B, H, T, K), (B, G, S, K), (B, G, S, 3), (1, H, T, S))
        )
        mask = Mask(causal=True, keys=torch.arange(S) < torch.tensor([[S], [6]]))
        if ours:
            out = kernel(q, k, v, mask, bias)
        else:
            out = ScaledDot()(q, spread(k, H), spread(v, H), mask, bias)
        (out * torch.linspace(0, 1, 3).double()).sum().backward()
        results.append((out.detach(), q.grad, k.grad, v.grad, bias.grad))
    for result, expected in zip(*results, strict=True):
        assert_close(result, expected, rtol=0, atol=1e-10)


def test_decoding_copies_no_shared_keys(monkeypatch):
    """The short path reads the cache without copying: no tensor of H x S x K is made."""
    grouped, cache = fast(GroupedQueryAttention(D, H, G)), FastCache(B, 1)
    x = torch.randn(B, 40, D)
    with torch.no_grad():
        attend(grouped, x, cache)
        monkeypatch.setattr(fused_module, "spread", None)
        step = attend(grouped, x[:, :1], cache)
    assert step.shape == (B, 1, D)


def test_every_head_is_recorded():
    grouped, x = GroupedQueryAttention(D, H, G), torch.randn(B, T, D)
    with record_attention(grouped) as maps:
        grouped(x, x, Mask(causal=True))
    assert maps["kernel"][0].shape == (B, H, T, T)
    with record_attention(plain := with_copied_heads(grouped)) as expected:
        plain(x, x, Mask(causal=True))
    assert_close(maps["kernel"][0], expected["kernel"][0], rtol=0, atol=1e-6)


def test_qk_norm_bounds_every_score_for_any_weights():
    """|q| = |k| = sqrt(K) after the norm, so |q k| / sqrt(K) is at most sqrt(K)."""
    grouped = GroupedQueryAttention(D, H, G, head_norm=RMSNorm, positions=Rotary(K))
    with torch.no_grad():
        grouped.query.weight.mul_(1e3)
        grouped.key.weight.mul_(1e3)
    kernel_inputs = []
    hook = grouped.kernel.register_forward_hook(lambda _, inputs, out: kernel_inputs.append(inputs))
    x = torch.randn(B, T, D)
    grouped(x, x, Mask())
    hook.remove()
    q, k = kernel_inputs[0][:2]
    assert_close(q.square().mean(-1), torch.ones(B, H, T), rtol=0, atol=1e-4)
    assert_close(k.square().mean(-1), torch.ones(B, G, T), rtol=0, atol=1e-4)
    assert (q @ spread(k, H).transpose(-1, -2)).abs().max() <= K + 1e-3


def test_queries_and_keys_have_a_norm_each():
    grouped = GroupedQueryAttention(D, H, G, head_norm=RMSNorm)
    x = torch.randn(B, T, D)
    before = grouped(x, x, Mask(causal=True))
    assert grouped.query_norm.gain is not grouped.key_norm.gain
    with torch.no_grad():
        grouped.key_norm.gain.mul_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert not torch.allclose(before, grouped(x, x, Mask(causal=True)))


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"num_heads=6 must be a multiple of num_kv_heads=4"):
        GroupedQueryAttention(D, H, 4)
