"""Noise on source sentences: the probabilities and distances of its definition, by seed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headway.tasks.translation.noise import SourceNoise

BLANK, TAG = 1, 3


def noise(**changes):
    settings = {"drop": 0.0, "mask": 0.0, "shuffle": 0, "blank": BLANK, "seed": 4}
    return SourceNoise(**{**settings, "kept": frozenset({TAG}), **changes})


IDS = st.lists(st.integers(10, 40), max_size=12)
FRACTIONS = st.floats(0, 0.99, allow_subnormal=False)  # other tests flush them


@given(IDS, st.integers(0, 5), st.integers(0, 50))
def test_without_noise_nothing_changes(ids, epoch, index):
    assert noise().source(ids, epoch, index) == ids
    assert noise().source([TAG, *ids], epoch, index) == [TAG, *ids]


@given(IDS, FRACTIONS, FRACTIONS, st.integers(0, 4))
def test_a_sentence_keeps_its_tag_and_at_least_one_token_and_gets_no_new_word(
    ids, drop, mask, shuffle
):
    noisy = noise(drop=drop, mask=mask, shuffle=shuffle).source([TAG, *ids], 1, 2)
    assert noisy[0] == TAG and noisy.count(TAG) == 1
    assert bool(noisy[1:]) == bool(ids)
    assert not Counter(i for i in noisy[1:] if i != BLANK) - Counter(ids)
    assert mask or BLANK not in noisy


@given(st.integers(1, 30), st.integers(0, 5), st.integers(0, 200))
def test_no_token_moves_further_than_the_maximum(length, shuffle, index):
    ids = list(range(10, 10 + length))
    moved = noise(shuffle=shuffle).source(ids, 0, index)
    assert sorted(moved) == ids
    assert all(abs(position - (i - 10)) <= shuffle for position, i in enumerate(moved))


def test_the_fractions_are_the_probabilities():
    ids = list(range(10, 60))
    sentences = [noise(drop=0.2, mask=0.3).source(ids, 0, index) for index in range(400)]
    remaining = sum(map(len, sentences))
    assert abs(remaining / (400 * 50) - 0.8) < 0.01
    assert abs(sum(s.count(BLANK) for s in sentences) / remaining - 0.3) < 0.015
    shuffled = [noise(shuffle=3).source(ids, 0, index) for index in range(200)]
    assert max(abs(p - (i - 10)) for s in shuffled for p, i in enumerate(s)) == 3


def test_the_noise_depends_on_seed_epoch_and_sentence_only():
    ids, kinds = list(range(10, 40)), {"drop": 0.3, "shuffle": 3}
    first = noise(**kinds).source(ids, 1, 7)
    assert first == noise(**kinds).source(ids, 1, 7)
    others = [
        noise(**kinds).source(ids, 2, 7),
        noise(**kinds).source(ids, 1, 8),
        noise(seed=5, **kinds).source(ids, 1, 7),
    ]
    assert first not in others
