import pytest
import torch

from headway.base.errors import UsageError
from headway.inspection import Alignment, align, heat_map, links
from headway.inspection.alignment import Head, align_by_head, entropy_by_head
from tests.fixtures.translators import make


def test_an_alignment_is_between_words_and_loses_no_attention():
    bundle = make()
    alignment = align(bundle, "two dogs play", "zwei hunde")
    assert alignment.source == ["two", "dogs", "play", "</s>"]
    assert alignment.target == ["zwei", "hunde"]
    torch.testing.assert_close(alignment.weights.sum(1), torch.ones(2))
    assert alignment.as_dict()["target"] == ["zwei", "hunde"]


def test_an_alignment_sums_over_source_tokens_and_averages_over_target_tokens():
    bundle = make()
    record = bundle.attention("bread dogs", "zitrone brot")
    cross = record.maps["decoder.blocks.1.cross"].mean(0)
    alignment = align(bundle, "bread dogs", "zitrone brot", layer=1)
    source_words = bundle.tokenizer.source.words(bundle.tokenizer.source.encode("bread dogs"))
    target_words = bundle.tokenizer.target.words(bundle.tokenizer.target.encode("zitrone brot"))
    for t, (_, positions) in enumerate(target_words):
        for s, (_, columns) in enumerate(source_words):
            expected = sum(float(cross[p, columns].sum()) for p in positions) / len(positions)
            assert float(alignment.weights[t, s]) == pytest.approx(expected, abs=1e-6)


def test_a_layer_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="layer=9"):
        align(make(), "bread", "brot", layer=9)


def test_a_heat_map_shows_large_weights_dark_and_aligns_wide_characters():
    lines = heat_map(["ab", "犬"], ["x", "y"], [[0.95, 0.05], [0.35, 0.55]]).split("\n")
    assert lines[1] == "ab  ██   "
    assert lines[2] == "犬  ░░ ▒▒"
    assert lines[4] == "1 x  2 y"
    with pytest.raises(ValueError, match="do not fit"):
        heat_map(["a"], ["x"], [[0.1, 0.2]])


@pytest.mark.parametrize(
    "changes",
    [{"attention": "linear"}, {"decoder": "rnn", "attention": "none"}],
    ids=["no softmax", "no attention"],
)
def test_a_model_whose_attention_weights_do_not_sum_to_one_has_no_alignment(changes):
    with pytest.raises(UsageError, match=f"attention={changes['attention']} gives no alignment"):
        align(make(**changes), "two dogs play", "zwei hunde")


@pytest.mark.parametrize("attention", ["additive", "bilinear", "linear-elu"])
def test_an_rnn_decoder_has_an_alignment_too(attention):
    bundle = make(encoder="rnn", decoder="rnn", attention=attention, input_feeding=True)
    alignment = align(bundle, "two dogs play", "zwei hunde")
    assert alignment.source[-1] == "</s>" and alignment.target == ["zwei", "hunde"]
    assert torch.allclose(alignment.weights.sum(1), torch.ones(2), atol=1e-5)


def test_every_target_word_is_linked_to_the_source_word_with_the_largest_weight():
    weights = torch.tensor([[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    alignment = Alignment(["a", "b", "</s>"], ["x", "y", "z"], weights)
    assert links(alignment) == {(1, 0), (0, 2)}
    assert links(Alignment([], [], torch.zeros(0, 0))) == set()
    bundle = make()
    of_model = align(bundle, "two dogs play", "zwei hunde")
    assert {target for _, target in links(of_model)} <= {0, 1}


def test_the_alignments_of_the_heads_have_the_layers_alignment_as_their_mean():
    bundle = make()
    by_head = align_by_head(bundle, "two dogs play", "zwei hunde")
    assert set(by_head) == {Head(layer, head) for layer in (0, 1) for head in (None, 0, 1, 2)}
    for layer in (0, 1):
        heads = torch.stack([by_head[Head(layer, head)].weights for head in range(3)])
        torch.testing.assert_close(by_head[Head(layer)].weights, heads.mean(0))
        layers = align(bundle, "two dogs play", "zwei hunde", layer=layer)
        torch.testing.assert_close(layers.weights, by_head[Head(layer)].weights)


def test_the_entropy_of_each_head_is_the_mean_over_sentences():
    bundle = make()
    pairs = [("two dogs play", "zwei hunde"), ("bread", "brot")]
    both, first, second = (
        entropy_by_head(bundle, chosen) for chosen in (pairs, pairs[:1], pairs[1:])
    )
    for head, entropy in both.items():
        assert entropy == pytest.approx((first[head] + second[head]) / 2, rel=1e-5)
