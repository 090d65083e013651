"""Span corruption: every token is kept once, the fractions of the definition, by seed."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headway.tasks.translation.span_corruption import SpanCorruption

SENTINELS = tuple(range(1000, 1020))
IDS = st.lists(st.integers(10, 900), min_size=1, max_size=120)
FRACTIONS = st.floats(0.01, 0.5)
LENGTHS = st.floats(1, 12)


def corruption(fraction=0.15, mean_length=3.0, sentinels=SENTINELS, seed=4):
    return SpanCorruption(
        fraction=fraction, mean_length=mean_length, sentinels=sentinels, seed=seed
    )


def spans_of(target: list[int]) -> dict[int, list[int]]:
    spans: dict[int, list[int]] = {}
    for token in target:
        if token in SENTINELS:
            assert token not in spans
            spans[token] = []
        else:
            spans[[*spans][-1]].append(token)
    return spans


@given(IDS, FRACTIONS, LENGTHS, st.integers(0, 20))
def test_the_spans_put_back_into_the_input_give_the_text(ids, fraction, mean_length, index):
    source, target = corruption(fraction, mean_length).pair(ids, ids, 1, index)
    spans = spans_of(target)
    assert [token for token in source if token in SENTINELS] == [*spans]
    assert tuple(spans) == SENTINELS[: len(spans)] and all(spans.values())
    restored: list[int] = []
    for token in source:
        restored += spans.get(token, [token])
    assert restored == ids


@given(IDS, FRACTIONS, LENGTHS, st.integers(0, 20))
def test_the_numbers_of_corrupted_tokens_and_spans_are_those_of_the_definition(
    ids, fraction, mean_length, index
):
    source, target = corruption(fraction, mean_length).pair(ids, ids, 0, index)
    spans = spans_of(target)
    corrupted = sum(map(len, spans.values()))
    assert corrupted == min(max(round(fraction * len(ids)), 1), max(len(ids) - 1, 1))
    kept = len(ids) - corrupted
    expected = max(round(corrupted / mean_length), 1)
    assert len(spans) == min(expected, max(kept, 1), len(SENTINELS))
    assert len(source) == kept + len(spans)
    for first, second in pairwise(source):
        assert not (first in SENTINELS and second in SENTINELS)


@given(IDS, st.integers(0, 3), st.integers(0, 50))
def test_a_corruption_depends_only_on_seed_epoch_and_index(ids, epoch, index):
    first = corruption().pair(ids, ids, epoch, index)
    assert first == corruption().pair(ids, ids, epoch, index)


def test_other_seeds_epochs_and_texts_have_other_spans():
    ids = list(range(10, 110))
    numbers = [(s, e, i) for s in (1, 2) for e in (0, 1) for i in (0, 1)]
    results = [corruption(seed=s).pair(ids, ids, e, i) for s, e, i in numbers]
    assert len({str(result) for result in results}) == 8


def test_each_token_is_corrupted_about_as_often_as_the_fraction_says():
    ids = list(range(100, 140))
    counts = dict.fromkeys(ids, 0)
    for index in range(2000):
        source, _ = corruption(0.2).corrupt(ids, Random(index))
        for token in set(ids) - set(source):
            counts[token] += 1
    assert sum(counts.values()) == 2000 * 8
    assert all(0.05 < counts[token] / 2000 < 0.4 for token in ids[3:-3])


def test_there_are_at_most_as_many_spans_as_sentinels_and_an_empty_text_stays_empty():
    source, target = corruption(0.5, 1.0, SENTINELS[:2]).corrupt(range(100), Random(0))
    assert sum(token in SENTINELS for token in source) == 2 and len(target) == 52
    assert corruption().corrupt([], Random(0)) == ([], [])
    assert corruption().corrupt([7], Random(0)) == ([1000], [1000, 7])
