"""Selection of the head that a page shows first."""

import pytest
import torch

from headway.inspection.document import Frame, Maps, Prediction, Side
from headway.inspection.first_head import MEAN, Opening, opening, opening_query, telling
from headway.inspection.watch import watch
from tests.fixtures.bundles import bert_classifier, gpt, translator
from tests.fixtures.documents import caption_frame, image_frame

WORDS = ["[CLS]", "the", "keeper", "counted", "three", "ships", ".", "[SEP]"]
N = len(WORDS)


def attending_to(keys, fraction=0.9):
    """Return one head: each query has `fraction` of its weight on its key, the rest is uniform."""
    weights = torch.full((N, N), (1 - fraction) / N)
    for query, key in enumerate(keys):
        weights[query, key] += fraction
    return weights


PATTERNS = {
    "first": attending_to([0] * N),
    "itself": attending_to(range(N)),
    "previous": attending_to([0, *range(N - 1)]),
    "next": attending_to([*range(1, N), N - 1]),
    "separator": attending_to([N - 1] * N),
    "full stop": attending_to([6] * N),
    "uniform": torch.full((N, N), 1 / N),
}
TELLING = attending_to([3, 2, 5, 5, 1, 2, 3, 2])


def test_a_head_between_words_scores_higher_than_every_positional_pattern():
    weights = torch.stack([*PATTERNS.values(), TELLING])
    *positional, best = telling(weights, None, WORDS).tolist()
    assert best > 0.5
    assert max(positional) < 0.1, dict(zip(PATTERNS, positional, strict=True))


def test_the_score_is_sharpness_times_the_weight_outside_the_patterns():
    weak, strong = (attending_to([3, 2, 5, 5, 1, 2, 3, 2], fraction) for fraction in (0.4, 0.8))
    scores = telling(torch.stack([weak, strong]), None, WORDS)
    assert 0 < scores[0] < scores[1] < 1
    one_query = torch.zeros(1, 1, 4)
    one_query[0, 0, 2] = 1
    assert telling(one_query, ["ships"], ["a", "b", "c", "d"]).item() == 1


def test_the_diagonal_of_cross_attention_scores_high_and_its_last_column_low():
    diagonal, ending = attending_to(range(N)), attending_to([N - 1] * N)
    words = ["le", "gardien", "a", "compté", "trois", "bateaux", "là", "bas"]
    scores = telling(torch.stack([diagonal, ending]), words, WORDS)
    assert scores[0] > 0.4 > 0.1 > scores[1]


def test_uniform_causal_attention_scores_zero():
    uniform = torch.ones(N, N).tril()
    uniform = uniform / uniform.sum(-1, keepdim=True)
    assert telling(uniform[None], None, WORDS, causal=True).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("words", [["."], ["[CLS]", "[SEP]"]])
def test_texts_without_words_have_a_score_too(words):
    weights = torch.full((2, len(words), len(words)), 1 / len(words))
    assert telling(weights, None, words).isfinite().all()


def frame_of(*maps):
    return Frame(label="", model={}, sides={"s": Side(tokens=WORDS)}, maps=maps)


def self_attention(name, *layers, **options):
    names = [str(i) for i in range(len(layers))]
    return Maps(name=name, queries="s", keys="s", layers=names, weights=list(layers), **options)


def test_a_frame_opens_at_its_head_with_the_highest_score():
    dull = torch.stack([PATTERNS["first"], PATTERNS["uniform"], PATTERNS["itself"]])
    good = torch.stack([PATTERNS["first"], TELLING, PATTERNS["itself"]])
    frame = frame_of(self_attention("encoder", dull, dull, good, dull))
    assert opening(frame) == Opening("encoder", 2, 1)
    derived = self_attention("encoder", good, measure="value-weighted")
    assert opening(frame_of(self_attention("a", dull), derived)).map == "a"


def test_images_open_at_the_last_layer_with_the_mean_of_all_heads():
    for frame in (image_frame(), caption_frame()):
        first_view = opening(frame)
        maps = next(m for m in frame.maps if m.name == first_view.map and m.measure == "attention")
        assert frame.sides[maps.keys].image is not None
        assert (first_view.layer, first_view.head) == (len(maps.layers) - 1, MEAN)


def test_a_translation_opens_at_its_sharpest_cross_attention():
    frame = watch(translator(), "the fox eats")
    first_view = opening(frame)
    assert first_view.map == "cross"
    maps = next(m for m in frame.maps if m.name == "cross" and m.measure == "attention")
    sides = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    scores = torch.stack([telling(weights, *sides) for weights in maps.weights])
    assert scores[first_view.layer, first_view.head] == scores.max()


@pytest.mark.parametrize("make", [gpt, bert_classifier])
def test_every_kind_of_text_model_has_an_opening(make):
    first_view = opening(watch(make(), "the fox eats the lemon"))
    assert first_view is not None and first_view.head >= 0


def test_weights_without_a_sum_of_one_open_at_the_last_layer_and_frames_without_maps_nowhere():
    raw = self_attention("a", torch.randn(3, N, N), torch.randn(3, N, N), normalised=False)
    assert opening(frame_of(raw)) == Opening("a", 1, MEAN)
    assert opening(frame_of()) is None


def query_of(frame):
    return opening_query(frame, opening(frame))


def test_a_masked_language_model_opens_at_its_mask():
    maps = [self_attention("encoder", TELLING[None])]
    prediction = Prediction(position=4, tokens=["two"], probabilities=[0.5])
    frame = frame_of(*maps)
    assert query_of(frame) != 4
    masked = Frame(
        label="",
        model={},
        sides=frame.sides,
        maps=maps,
        predictions=[prediction],
        predictions_side="s",
    )
    assert query_of(masked) == 4


def test_a_continuation_opens_at_a_visible_word_that_the_model_generated():
    tokens = ["Once", "\n", "upon", "\n", "\n", "a", "time", "."]
    side = Side(tokens=tokens, generated=3)
    maps = [self_attention("decoder", TELLING.tril()[None], causal=True)]
    frame = Frame(label="", model={}, sides={"s": side}, maps=maps)
    assert tokens[query_of(frame)] in {"a", "time"}
    only_breaks = Side(tokens=[*tokens[:3], *["\n"] * 5], generated=3)
    frame = Frame(label="", model={}, sides={"s": only_breaks}, maps=maps)
    assert tokens[query_of(frame)] in {"Once", "upon"}


def test_the_sharpest_word_of_the_head_is_the_query_and_an_image_opens_at_its_class_token():
    weights = torch.full((N, N), 1 / N)
    weights[3] = torch.nn.functional.one_hot(torch.tensor(5), N)
    assert query_of(frame_of(self_attention("encoder", weights[None]))) == 3
    assert query_of(image_frame()) == 0
