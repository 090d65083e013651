import pytest
import torch
from torch.testing import assert_close

from headway.attention import KeyValueCache, Mask, MultiHeadAttention, record_attention
from tests.fixtures.steps import attend
from tests.fixtures.zoo import KERNELS

B, T, S, D, E, H = 2, 5, 7, 12, 9, 3


def test_heads_are_independent_attentions_concatenated():
    """Each head is computed separately with its own W_Q, W_K, W_V and the scale 1/sqrt(d)."""
    attention = MultiHeadAttention(D, H)
    x = torch.randn(B, T, D)
    heads = []
    for h in range(H):
        rows = slice(h * 4, (h + 1) * 4)
        q, k, v = (
            x @ layer.weight[rows].T + layer.bias[rows]
            for layer in (attention.query, attention.key, attention.value)
        )
        heads.append(((q @ k.transpose(1, 2)) / 2).softmax(-1) @ v)
    expected = attention.output(torch.cat(heads, -1))
    assert_close(attention(x, x, Mask()), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torchs_multihead_attention(causal):
    ours, theirs = MultiHeadAttention(D, H), torch.nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x, keys = torch.randn(B, T, D), torch.arange(T) < torch.tensor([[T], [3]])
    masked = ~torch.ones(T, T, dtype=torch.bool).tril() if causal else None
    expected, weights = theirs(
        x, x, x, key_padding_mask=~keys, attn_mask=masked, average_attn_weights=False
    )
    with record_attention(ours) as maps:
        output = ours(x, x, Mask(causal=causal, keys=keys))
    assert_close(output, expected, rtol=0, atol=1e-6)
    assert_close(maps["kernel"][0], weights, rtol=0, atol=1e-6)


def test_the_value_width_may_be_one_and_the_source_width_different():
    attention = MultiHeadAttention(D, H, source_dim=E, value_dim=1, head_dim=5)
    assert attention.value.weight.shape == (H, E)
    assert attention.output.weight.shape == (D, H)
    assert attention(torch.randn(B, T, D), torch.randn(B, S, E), Mask()).shape == (B, T, D)


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"model_dim=12 must be a multiple of num_heads=5"):
        MultiHeadAttention(12, 5)


@pytest.mark.parametrize("kernel", sorted(KERNELS.keys() - {"window"}))
def test_self_attention_without_positions_is_permutation_equivariant(kernel):
    attention = MultiHeadAttention(D, H, kernel=KERNELS[kernel](H, D // H, D // H))
    x, order = torch.randn(B, T, D), torch.tensor([3, 0, 4, 1, 2])
    permuted = attention(x[:, order], x[:, order], Mask())
    assert_close(attention(x, x, Mask())[:, order], permuted, rtol=1e-5, atol=1e-5)


def test_beams_that_share_keys_equal_copies_of_the_keys():
    attention = MultiHeadAttention(D, H)
    x, source = torch.randn(6, T, D), torch.randn(2, S, D)
    mask = Mask(keys=torch.arange(S) < torch.tensor([[S], [4]]))
    shared = attention(x, attention.keys_values(source), mask)
    copied = attention(
        x, source.repeat_interleave(3, 0), Mask(keys=mask.keys.repeat_interleave(3, 0))
    )
    assert_close(shared, copied, rtol=0, atol=1e-6)


def test_a_cache_grows_beyond_its_initial_size():
    attention, cache = MultiHeadAttention(D, H), KeyValueCache(B, 1)
    x = torch.randn(B, 40, D)
    steps = [attend(attention, x[:, [t]], cache) for t in range(40)]
    assert_close(torch.cat(steps, 1), attention(x, x, Mask(causal=True)), rtol=0, atol=1e-5)


def test_a_cache_cannot_be_rewound_forward():
    cache = KeyValueCache(2, 1)
    cache.extend([[torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 3, 4)]])
    with pytest.raises(ValueError, match="cannot rewind a sequence of 3 tokens to 4"):
        cache.rewind([4, 0])


def test_recording_some_layers_only_and_an_unknown_layer():
    attention = torch.nn.ModuleDict({"a": MultiHeadAttention(D, H), "b": MultiHeadAttention(D, H)})
    x = torch.randn(B, T, D)
    with record_attention(attention, ["b"]) as maps:
        attention["a"](x, x, Mask())
        attention["b"](x, x, Mask())
    assert set(maps) == {"b"} and len(maps["b"]) == 1
    with (
        pytest.raises(ValueError, match="no attention layer 'c'"),
        record_attention(attention, ["c"]),
    ):
        pass


def test_hooks_are_removed_after_an_error():
    attention = MultiHeadAttention(D, H)
    with pytest.raises(RuntimeError), record_attention(attention) as maps:
        raise RuntimeError
    attention(torch.randn(B, T, D), torch.randn(B, T, D), Mask())
    assert maps["kernel"] == []
