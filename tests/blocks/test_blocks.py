import math

import pytest
import torch
from torch.testing import assert_close

from headway.blocks import (
    Added,
    Concatenated,
    Dropout,
    Embeddings,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedTable,
    NoPositions,
    PostNorm,
    PreNorm,
    RMSNorm,
    SinusoidalTable,
)
from headway.blocks.feedforward import ACTIVATIONS

B, T, D = 2, 5, 12


def test_layer_norm_is_its_equation_in_float64():
    norm, x = LayerNorm(D).double(), torch.randn(B, T, D, dtype=torch.float64) * 3 + 1
    with torch.no_grad():
        norm.gain.normal_()
        norm.shift.normal_()
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    expected = norm.gain * (x - mean) / (variance + 1e-5).sqrt() + norm.shift
    assert_close(norm(x), expected, rtol=0, atol=1e-12)


def test_feed_forward_is_its_equation_at_every_position():
    layer, x = FeedForward(D, 20), torch.randn(B, T, D)
    hidden = (x @ layer.expand.weight.T + layer.expand.bias).clamp(min=0)
    assert_close(layer(x), hidden @ layer.contract.weight.T + layer.contract.bias)
    assert_close(layer(x)[:, 3], layer(x[:, 3:4])[:, 0])


def test_pre_norm_and_post_norm_are_their_equations():
    x = torch.randn(B, T, D)
    pre, post = PreNorm(LayerNorm(D)), PostNorm(LayerNorm(D))
    assert_close(pre(x, torch.sin), x + pre.norm(x).sin())
    assert_close(post(x, torch.sin), post.norm(x + x.sin()))


def test_sinusoids_are_the_papers_sines_and_cosines():
    table = SinusoidalTable(6)(torch.arange(50)[None])[0]
    for t in (0, 1, 17, 49):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            assert table[t, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[t, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_exact_at_large_positions():
    row = SinusoidalTable(4)(torch.tensor([[123_456]]))[0, 0]
    assert row[0] == pytest.approx(math.sin(123_456), abs=1e-6)


def test_a_position_beyond_the_learned_table_is_refused():
    tokens = torch.nn.Embedding(9, D)
    embed = Embeddings(tokens, Added(LearnedTable(D, 6)))
    embed(torch.zeros(1, 6, dtype=torch.long))
    with pytest.raises(ValueError, match=r"7 positions are needed, .* max_length=6"):
        embed(torch.zeros(1, 7, dtype=torch.long))
    with pytest.raises(ValueError, match="7 positions"):
        embed(torch.zeros(1, 1, dtype=torch.long), [6])


@pytest.mark.parametrize(
    "positions",
    [Added(SinusoidalTable(D)), Concatenated(SinusoidalTable(4)), NoPositions()],
    ids=["added", "concatenated", "none"],
)
def test_a_text_embedded_in_parts_equals_the_whole(positions):
    embed = Embeddings(torch.nn.Embedding(9, positions.token_dim(D)), positions)
    tokens = torch.randint(0, 9, (2, 7))
    whole = embed(tokens)
    assert whole.shape == (2, 7, D)
    assert torch.equal(embed(tokens[:, 4:], [4]), whole[:, 4:])
    ragged = torch.stack([tokens[0, 2:4], tokens[1, 5:7]])
    assert torch.equal(embed(ragged, [2, 5]), torch.stack([whole[0, 2:4], whole[1, 5:7]]))


def test_embeddings_are_scaled_by_the_root_of_their_width():
    tokens = torch.nn.Embedding(9, D)
    embedded = Embeddings(tokens, NoPositions())(torch.tensor([[3]]))
    assert_close(embedded[0, 0], tokens.weight[3] * math.sqrt(D))


def test_positions_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="even"):
        SinusoidalTable(5)
    with pytest.raises(ValueError, match="cannot be added"):
        Added(SinusoidalTable(4)).token_dim(D)
    with pytest.raises(ValueError, match="leave no room"):
        Concatenated(SinusoidalTable(D)).token_dim(D)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_drops_the_requested_fraction_and_preserves_the_mean(p):
    dropout = Dropout(p)
    y = dropout(torch.ones(1000, 1000))
    dropped = float((y == 0).float().mean())
    error = 4 * math.sqrt(p * (1 - p) / 1e6)
    assert abs(dropped - p) < error
    nonzero = y[y != 0]
    assert nonzero.min() == nonzero.max() == pytest.approx(1 / (1 - p), rel=1e-4)
    assert float(y.mean()) == pytest.approx(1, abs=error / (1 - p))


def test_dropout_masks_have_no_pattern_between_neighbours():
    """Four elements share one 64-bit number: they must still be independent."""
    dropped = (Dropout(0.3)(torch.ones(400_000)) == 0).float() - 0.3
    for distance in (1, 2, 3, 4, 8, 1000):
        correlation = float((dropped[:-distance] * dropped[distance:]).mean()) / 0.21
        assert abs(correlation) < 4 / math.sqrt(400_000)


def test_dropout_depends_on_the_seed_and_its_gradient_flows_through_kept_elements():
    dropout = Dropout(0.5)
    x = torch.randn(7, 9, requires_grad=True)
    torch.manual_seed(5)
    first = dropout(x)
    torch.manual_seed(5)
    assert torch.equal(first, dropout(x))
    assert not torch.equal(first, dropout(x))
    first.backward(torch.ones_like(first))
    assert torch.equal(x.grad, (first != 0).float() * 2)


def test_dropout_is_off_in_evaluation_and_refuses_invalid_probabilities():
    x = torch.randn(3, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    with pytest.raises(ValueError, match="below 1"):
        Dropout(1.0)


def test_rms_norm_is_its_equation_in_float64():
    norm, x = RMSNorm(D, eps=1e-3).double(), torch.randn(B, T, D, dtype=torch.float64) * 3 + 1
    with torch.no_grad():
        norm.gain.normal_()
    expected = norm.gain * x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    assert_close(norm(x), expected, rtol=0, atol=1e-12)


def test_rms_norm_squares_in_float32():
    """500^2 is above the maximum of float16."""
    norm, x = RMSNorm(D).half(), torch.full((1, D), 500.0, dtype=torch.float16)
    assert_close(norm(x), torch.ones(1, D, dtype=torch.float16), rtol=0, atol=1e-3)


def test_a_gated_feed_forward_is_its_equation():
    layer, x = GatedFeedForward(D, 20), torch.randn(B, T, D)
    gate, up = x @ layer.gate.weight.T, x @ layer.expand.weight.T
    expected = (gate * gate.sigmoid() * up) @ layer.contract.weight.T
    assert_close(layer(x), expected, rtol=0, atol=1e-6)


def test_gelus_approximation_is_gpts():
    x = torch.linspace(-4, 4, 41)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    activated = ACTIVATIONS["gelu-tanh"](x)
    assert_close(activated, x / 2 * (1 + inner.tanh()), rtol=0, atol=1e-6)
    assert not torch.allclose(activated, ACTIVATIONS["gelu"](x), rtol=0, atol=1e-5)
