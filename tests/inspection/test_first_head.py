"""Which head a page shows first."""

import pytest
import torch

from headway.inspection.document import Frame, Maps, Side
from headway.inspection.first_head import MEAN, Opening, opening, telling
from headway.inspection.watch import watch
from tests.fixtures.bundles import bert_classifier, gpt, translator
from tests.fixtures.documents import caption_frame, image_frame

WORDS = ["[CLS]", "the", "keeper", "counted", "three", "ships", ".", "[SEP]"]
N = len(WORDS)


def looking_at(cells, share=0.9):
    """One head: `share` of each query's weight on its cell, the rest spread evenly."""
    weights = torch.full((N, N), (1 - share) / N)
    for query, key in enumerate(cells):
        weights[query, key] += share
    return weights


PATTERNS = {
    "first": looking_at([0] * N),
    "itself": looking_at(range(N)),
    "previous": looking_at([0, *range(N - 1)]),
    "next": looking_at([*range(1, N), N - 1]),
    "separator": looking_at([N - 1] * N),
    "full stop": looking_at([6] * N),
    "uniform": torch.full((N, N), 1 / N),
}
TELLING = looking_at([3, 2, 5, 5, 1, 2, 3, 2])


def test_a_head_between_words_is_more_telling_than_every_pattern_of_positions():
    weights = torch.stack([*PATTERNS.values(), TELLING])
    *others, best = telling(weights, None, WORDS).tolist()
    assert best > 0.5
    assert max(others) < 0.1, dict(zip(PATTERNS, others, strict=True))


def test_the_score_is_sharpness_times_what_lies_elsewhere():
    weak, strong = (looking_at([3, 2, 5, 5, 1, 2, 3, 2], share) for share in (0.4, 0.8))
    scores = telling(torch.stack([weak, strong]), None, WORDS)
    assert 0 < scores[0] < scores[1] < 1
    one_query = torch.zeros(1, 1, 4)
    one_query[0, 0, 2] = 1
    assert telling(one_query, ["ships"], ["a", "b", "c", "d"]).item() == 1


def test_the_diagonal_of_cross_attention_is_telling_and_its_end_is_not():
    diagonal, ending = looking_at(range(N)), looking_at([N - 1] * N)
    words = ["le", "gardien", "a", "compté", "trois", "bateaux", "là", "bas"]
    scores = telling(torch.stack([diagonal, ending]), words, WORDS)
    assert scores[0] > 0.4 > 0.1 > scores[1]


def test_uniform_causal_attention_says_nothing():
    uniform = torch.ones(N, N).tril()
    uniform = uniform / uniform.sum(-1, keepdim=True)
    assert telling(uniform[None], None, WORDS, causal=True).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("words", [["."], ["[CLS]", "[SEP]"]])
def test_texts_without_words_have_a_score_too(words):
    weights = torch.full((2, len(words), len(words)), 1 / len(words))
    assert telling(weights, None, words).isfinite().all()


def frame_of(*maps):
    return Frame(label="", model={}, sides={"s": Side(tokens=WORDS)}, maps=maps)


def self_attention(name, *layers, **more):
    names = [str(i) for i in range(len(layers))]
    return Maps(name=name, queries="s", keys="s", layers=names, weights=list(layers), **more)


def test_a_frame_opens_at_its_most_telling_head():
    dull = torch.stack([PATTERNS["first"], PATTERNS["uniform"], PATTERNS["itself"]])
    good = torch.stack([PATTERNS["first"], TELLING, PATTERNS["itself"]])
    frame = frame_of(self_attention("encoder", dull, dull, good, dull))
    assert opening(frame) == Opening("encoder", 2, 1)
    derived = self_attention("encoder", good, measure="value-weighted")
    assert opening(frame_of(self_attention("a", dull), derived)).map == "a"


def test_images_open_at_the_last_layer_with_the_mean_of_all_heads():
    for frame in (image_frame(), caption_frame()):
        found = opening(frame)
        maps = next(m for m in frame.maps if m.name == found.map and m.measure == "attention")
        assert frame.sides[maps.keys].image is not None
        assert (found.layer, found.head) == (len(maps.layers) - 1, MEAN)


def test_a_translation_opens_at_its_sharpest_cross_attention():
    frame = watch(translator(), "the fox eats")
    found = opening(frame)
    assert found.map == "cross"
    maps = next(m for m in frame.maps if m.name == "cross" and m.measure == "attention")
    sides = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    scores = torch.stack([telling(weights, *sides) for weights in maps.weights])
    assert scores[found.layer, found.head] == scores.max()


@pytest.mark.parametrize("make", [gpt, bert_classifier])
def test_every_kind_of_text_model_has_an_opening(make):
    found = opening(watch(make(), "the fox eats the lemon"))
    assert found is not None and found.head >= 0


def test_weights_without_a_sum_of_one_open_at_the_last_layer_and_frames_without_maps_nowhere():
    raw = self_attention("a", torch.randn(3, N, N), torch.randn(3, N, N), normalised=False)
    assert opening(frame_of(raw)) == Opening("a", 1, MEAN)
    assert opening(frame_of()) is None
