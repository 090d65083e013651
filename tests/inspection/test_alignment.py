import pytest
import torch

from headway.errors import UsageError
from headway.inspection import Alignment, align, heat_map, links
from tests.fixtures.translators import make


def test_an_alignment_is_between_words_and_loses_no_attention():
    bundle = make()
    found = align(bundle, "two dogs play", "zwei hunde")
    assert found.source == ["two", "dogs", "play", "</s>"]
    assert found.target == ["zwei", "hunde"]
    torch.testing.assert_close(found.weights.sum(1), torch.ones(2))
    assert found.as_dict()["target"] == ["zwei", "hunde"]


def test_words_are_sums_over_source_pieces_and_means_over_target_pieces():
    bundle = make()
    record = bundle.attention("bread dogs", "zitrone brot")
    cross = record.maps["decoder.blocks.1.cross"].mean(0)
    found = align(bundle, "bread dogs", "zitrone brot", layer=1)
    words = bundle.tokenizer.source.words(bundle.tokenizer.source.encode("bread dogs"))
    rows = bundle.tokenizer.target.words(bundle.tokenizer.target.encode("zitrone brot"))
    for t, (_, places) in enumerate(rows):
        for s, (_, columns) in enumerate(words):
            expected = sum(float(cross[p, columns].sum()) for p in places) / len(places)
            assert float(found.weights[t, s]) == pytest.approx(expected, abs=1e-6)


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="layer=9"):
        align(make(), "bread", "brot", layer=9)


def test_a_heat_map_shows_strong_weights_dark_and_lines_up_wide_letters():
    drawn = heat_map(["ab", "犬"], ["x", "y"], [[0.95, 0.05], [0.35, 0.55]]).split("\n")
    assert drawn[1] == "ab  ██   "
    assert drawn[2] == "犬  ░░ ▒▒"
    assert drawn[4] == "1 x  2 y"
    with pytest.raises(ValueError, match="do not fit"):
        heat_map(["a"], ["x"], [[0.1, 0.2]])


@pytest.mark.parametrize(
    "changes",
    [{"attention": "linear"}, {"decoder": "rnn", "attention": "none"}],
    ids=["no softmax", "no attention"],
)
def test_a_model_whose_weights_are_no_shares_has_no_alignment(changes):
    with pytest.raises(UsageError, match=f"attention={changes['attention']} gives no alignment"):
        align(make(**changes), "two dogs play", "zwei hunde")


@pytest.mark.parametrize("attention", ["additive", "bilinear", "linear-elu"])
def test_an_rnn_decoder_is_aligned_as_any_other(attention):
    bundle = make(encoder="rnn", decoder="rnn", attention=attention, input_feeding=True)
    found = align(bundle, "two dogs play", "zwei hunde")
    assert found.source[-1] == "</s>" and found.target == ["zwei", "hunde"]
    assert torch.allclose(found.weights.sum(1), torch.ones(2), atol=1e-5)


def test_every_target_word_is_linked_to_the_source_word_it_looks_at_most():
    weights = torch.tensor([[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    found = Alignment(["a", "b", "</s>"], ["x", "y", "z"], weights)
    assert links(found) == {(1, 0), (0, 2)}
    assert links(Alignment([], [], torch.zeros(0, 0))) == set()
    bundle = make()
    own = align(bundle, "two dogs play", "zwei hunde")
    assert {target for _, target in links(own)} <= {0, 1}
