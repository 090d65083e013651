"""Kernels and positions compared with the implementations in torch and transformers.

Additive attention has no published implementation in either, and the plain dot product none of its
own: they are compared with five lines of float64 numpy.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import flex_attention as torchs
from torch.testing import assert_close
from transformers import LlamaConfig, MiniMaxConfig, MistralConfig, T5Config
from transformers import masking_utils as masks
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.mistral.modeling_mistral import MistralAttention
from transformers.models.t5.modeling_t5 import T5Attention

from headway.attention import (
    Additive,
    Alibi,
    Bilinear,
    Dot,
    KeyValueCache,
    LinearDot,
    Mask,
    MultiHeadAttention,
    RelativeBuckets,
    Rotary,
    ScaledDot,
    SlidingWindow,
    linear,
    positions_after,
)
from headway.transforms import fast
from headway.transforms.fast import window
from tests.fixtures.steps import attend

B, T, S, D, H, K, KV = 2, 5, 7, 24, 3, 8, 6
DOUBLE, CPU = torch.float64, torch.device("cpu")
KEYS = torch.arange(S) < torch.tensor([[S], [6]])


def inputs(queries=T, values=KV):
    sizes = (B, H, queries, K), (B, H, S, K), (B, H, S, values)
    return tuple(torch.randn(size, dtype=DOUBLE, requires_grad=True) for size in sizes)


def assert_same(actual, expected, leaves, atol=1e-10):
    """Assert equal values, and equal gradients of the same leaves."""
    assert_close(actual, expected, rtol=0, atol=atol)
    direction = torch.randn_like(actual)
    ours = torch.autograd.grad(actual, leaves, direction, retain_graph=True)
    theirs = torch.autograd.grad(expected, leaves, direction, retain_graph=True)
    for our_gradient, reference in zip(ours, theirs, strict=True):
        assert_close(our_gradient, reference, rtol=0, atol=atol)


@torch.no_grad()
def copy(ours, *theirs):
    """Copy their matrices of query, key, value and output into ours."""
    parts = (ours.query, ours.key, ours.value, ours.output)
    for part, reference in zip(parts, theirs, strict=True):
        part.weight.copy_(reference.weight)


def angles(positions):
    """Return LlamaRotaryEmbedding's outputs in float64; it always computes in float32."""
    frequencies = 10_000.0 ** (-torch.arange(0, K, 2, dtype=DOUBLE) / K)
    repeated = (positions[..., None] * frequencies).repeat(1, 1, 2)
    return repeated.cos(), repeated.sin()


PASTS = {"from the start": (0,), "after 40": (40,), "rows apart": (3, 0)}


@pytest.mark.parametrize("past", PASTS.values(), ids=PASTS)
def test_rotary_positions_rotate_vectors_as_llamas(past):
    q, _, _ = inputs()
    rotary, positions = Rotary(K), positions_after(past, T, CPU)
    theirs = torch.tensor(past)[:, None] + torch.arange(T)
    config = LlamaConfig(hidden_size=D, num_attention_heads=H)
    cos, sin = LlamaRotaryEmbedding(config)(q.float(), theirs)
    expected, _ = apply_rotary_pos_emb(q.float(), q.float(), cos, sin)
    assert_close(rotary.rotate(q.float(), positions), expected, rtol=0, atol=1e-5)
    exact, _ = apply_rotary_pos_emb(q, q, *angles(theirs))
    assert_same(rotary.rotate(q, positions), exact, [q])


@pytest.mark.parametrize("cached", [False, True], ids=["at once", "in chunks"])
@pytest.mark.parametrize("size", [None, 4])
def test_a_layer_with_rotary_and_a_window_equals_mistrals(monkeypatch, size, cached):
    """Without a window it is Llama's. Read in chunks through a cache it is the same."""
    monkeypatch.setattr(window, "CHUNK", 2)
    config = MistralConfig(hidden_size=D, num_attention_heads=H, num_key_value_heads=H)
    config._attn_implementation = "sdpa"  # eager takes its softmax in float32
    theirs = MistralAttention(config, 0).double()
    kernel = ScaledDot() if size is None else fast(SlidingWindow(size))
    ours = MultiHeadAttention(D, H, kernel=kernel, bias=False, positions=Rotary(K)).double()
    copy(ours, theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj)
    x = torch.randn(B, S, D, dtype=DOUBLE, requires_grad=True)
    rule = masks.causal_mask_function
    rule = rule if size is None else masks.sliding_window_causal_mask_function(size)
    allowed = masks.sdpa_mask(B, S, S, mask_function=rule, allow_is_causal_skip=False)
    expected, _ = theirs(x, angles(torch.arange(S)[None]), allowed)
    if cached:
        cache = KeyValueCache(B, 1)
        chunks = (slice(0, 3), slice(3, 4), slice(4, S))
        actual = torch.cat([attend(ours, x[:, chunk], cache) for chunk in chunks], dim=1)
        assert_close(actual, expected, rtol=0, atol=1e-10)
    else:
        assert_same(ours(x, x, Mask(causal=True)), expected, [x])


SIZES = [(32, 128), (32, 20), (8, 30), (4, 11), (64, 256)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "furthest"), SIZES)
def test_every_distance_falls_into_t5s_bucket(buckets, furthest, causal):
    ahead = torch.arange(-3 * furthest, 3 * furthest + 1)
    scheme = RelativeBuckets(H, causal=causal, num_buckets=buckets, max_distance=furthest)
    expected = T5Attention._relative_position_bucket(ahead, not causal, buckets, furthest)
    assert torch.equal(scheme.buckets(ahead), expected)


def t5(causal):
    """Their layer and ours, with distances that reach every kind of bucket."""
    config = T5Config(
        d_model=D,
        d_kv=K,
        num_heads=H,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=6,
        dropout_rate=0.0,
        is_decoder=causal,
    )
    config._attn_implementation = "eager"
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    positions = RelativeBuckets(H, causal=causal, num_buckets=8, max_distance=6)
    ours = MultiHeadAttention(D, H, kernel=fast(Dot()), bias=False, positions=positions).double()
    copy(ours, theirs.q, theirs.k, theirs.v, theirs.o)
    positions.table = theirs.relative_attention_bias.weight
    return theirs, ours, positions


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_of_each_bucket_equals_t5s_also_after_a_past(causal):
    theirs, _, positions = t5(causal)
    expected = theirs.compute_bias(T, S, past_seen_tokens=S - T)
    actual = positions.bias(positions_after((S - T,), T, CPU), S)
    assert_same(actual, expected, [positions.table])
    ragged = positions.bias(positions_after((S - T, 0), T, CPU), S)
    assert_close(ragged[:1], expected, rtol=0, atol=0)
    assert_close(ragged[1:], theirs.compute_bias(T, S), rtol=0, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_with_relative_positions_equals_t5s(causal):
    theirs, ours, positions = t5(causal)
    x = torch.randn(B, S, D, dtype=DOUBLE, requires_grad=True)
    rule = masks.causal_mask_function if causal else masks.bidirectional_mask_function
    hidden = masks.eager_mask(
        B, S, S, mask_function=rule, attention_mask=KEYS, dtype=DOUBLE, allow_is_causal_skip=False
    )
    expected, _, _ = theirs(x, mask=hidden)
    assert_same(ours(x, x, Mask(causal=causal, keys=KEYS)), expected, [x, positions.table])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 71])
def test_alibi_weights_equal_blooms(heads):
    """Bloom adds m s where the paper adds -m (t - s): the same after a softmax over s <= t."""
    scores = torch.randn(B, heads, T, S)
    hidden = ~Mask(causal=True, keys=KEYS).dense(T, S)
    bias = Alibi(heads).bias(positions_after((S - T,), T, CPU), S)
    theirs = build_alibi_tensor(KEYS.long(), heads, torch.float32).view(B, heads, 1, S)
    actual, expected = (
        (scores + added).masked_fill(hidden, -torch.inf).softmax(-1) for added in (bias, theirs)
    )
    assert_close(actual, expected, rtol=0, atol=1e-6)


@pytest.fixture
def flex(monkeypatch):
    """Return torch's flex_attention without the compiler."""
    monkeypatch.setattr(torchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    return torchs.flex_attention


@torch.no_grad()
def test_alibi_equals_a_score_mod_of_flex_attention(flex):
    q, k, v = (x.detach() for x in inputs())
    slopes = torch.tensor([1 / 16, 1 / 256, 1 / 4], dtype=DOUBLE)

    def alibi(score, b, h, t, s):
        return score - slopes[h] * (S - T + t - s).abs()

    bias = Alibi(H).bias(positions_after((S - T,), T, CPU), S)
    expected = flex(q, k, v, score_mod=alibi)
    assert_close(ScaledDot()(q, k, v, Mask(), bias), expected, rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_window_equals_a_mask_mod_of_flex_attention(monkeypatch, flex, size, causal):
    monkeypatch.setattr(window, "CHUNK", 2)
    q, k, v = (x.detach() for x in inputs())

    def near(b, h, t, s):
        back = S - T + t - s
        return (back < size) & (back > (-1 if causal else -size))

    blocks = torchs.create_block_mask(near, None, None, T, S, device="cpu")
    expected = flex(q, k, v, block_mask=blocks)
    narrow = fast(SlidingWindow(size))(q, k, v, Mask(causal=causal))
    assert_close(narrow, expected, rtol=0, atol=1e-10)
    masked = ScaledDot()(q, k, v, Mask(causal=causal, window=size))
    assert_close(masked, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_window_equals_transformers_mask_with_torchs_attention(monkeypatch, size, causal):
    """Their two-sided window counts neighbours to each side, ours counts the token itself too."""
    monkeypatch.setattr(window, "CHUNK", 2)
    q, k, v = inputs()
    both_sides = masks.sliding_window_bidirectional_mask_function(size - 1)
    rule = masks.sliding_window_causal_mask_function(size) if causal else both_sides
    allowed = masks.sdpa_mask(
        B, T, S, S - T, mask_function=rule, attention_mask=KEYS, allow_is_causal_skip=False
    )
    ours = Mask(causal=causal, window=size, keys=KEYS)
    assert torch.equal(ours.dense(T, S), allowed)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    actual = fast(SlidingWindow(size))(q, k, v, Mask(causal=causal, keys=KEYS))
    assert_same(actual, expected, [q, k, v])


def test_bilinear_scores_and_gradients_equal_torchs_bilinear():
    kernel = fast(Bilinear(H, KV, K)).double()
    nn.init.normal_(kernel.matrix)
    q = torch.randn(B, H, T, KV, dtype=DOUBLE, requires_grad=True)
    k = torch.randn(B, H, S, K, dtype=DOUBLE, requires_grad=True)
    pairs = q[:, :, :, None].expand(-1, -1, -1, S, -1), k[:, :, None].expand(-1, -1, T, -1, -1)
    heads = [F.bilinear(pairs[0][:, h], pairs[1][:, h], kernel.matrix[h, None]) for h in range(H)]
    expected = torch.stack(heads, dim=1)[..., 0]
    assert_same(kernel.scores(q, k), expected, [q, k, kernel.matrix])
    v = torch.randn(B, H, S, 4, dtype=DOUBLE)
    mask = Mask(causal=True, keys=KEYS)
    weights = expected.masked_fill(~mask.dense(T, S), -torch.inf).softmax(-1)
    assert_same(kernel(q, k, v, mask), weights @ v, [q, k, kernel.matrix])


def test_linear_attention_equals_minimaxs_without_decay(monkeypatch):
    """Without activation, norm and gate it computes (Q K^T) V over the past, by blocks.

    Its keys decay with distance; the rate is set to almost 0.
    """
    monkeypatch.setattr(linear, "CHUNK", 3)
    config = MiniMaxConfig(
        hidden_size=D, num_attention_heads=H, num_hidden_layers=2, block_size=2, head_dim=K
    )
    theirs = MiniMaxLightningAttention(config, 0).double()
    theirs.slope_rate.fill_(1e-13)
    theirs.query_decay, theirs.key_decay, theirs.diagonal_decay = theirs.decay_factors(
        theirs.slope_rate
    )
    nn.init.zeros_(theirs.output_gate.weight)  # sigmoid(0) = 1/2
    theirs.act_fn = theirs.norm = theirs.out_proj = nn.Identity()
    x = torch.randn(B, S, D, dtype=DOUBLE, requires_grad=True)
    expected = 2 * theirs(x, None, None)[0]
    parts = (x @ theirs.qkv_proj.weight.T).view(B, S, H, 3 * K).transpose(1, 2)
    q, k, v = parts.split(K, dim=-1)
    actual = LinearDot()(q * math.sqrt(K), k, v, Mask(causal=True))
    assert_same(actual.transpose(1, 2).flatten(2), expected, [x])


def softmax(scores):
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


@torch.no_grad()
def test_dot_equals_numpys_softmax_of_the_products():
    q, k, v = inputs()
    a, b, c = (x.numpy() for x in (q, k, v))
    future = np.triu(np.ones((T, S), dtype=bool), k=S - T + 1)
    scores = np.where(future, -np.inf, np.einsum("bhtk,bhsk->bhts", a, b))
    actual = fast(Dot())(q, k, v, Mask(causal=True)).numpy()
    np.testing.assert_allclose(actual, softmax(scores) @ c, rtol=0, atol=1e-10)


@torch.no_grad()
def test_additive_equals_numpys_tanh_layer():
    kernel = fast(Additive(H, K, K, 5)).double()
    q, k, v = inputs()
    a, b, c = (x.numpy() for x in (q, k, v))
    first, second, vector = (
        p.numpy() for p in (kernel.of_key, kernel.of_query, kernel.vector)
    )  # W1, W2, v
    inner = (b @ first)[:, :, None] + (a @ second)[:, :, :, None]
    future = np.triu(np.ones((T, S), dtype=bool), k=S - T + 1)
    scores = np.where(future, -np.inf, np.einsum("bhtsa,ha->bhts", np.tanh(inner), vector))
    actual = kernel(q, k, v, Mask(causal=True)).numpy()
    np.testing.assert_allclose(actual, softmax(scores) @ c, rtol=0, atol=1e-10)
