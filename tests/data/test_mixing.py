"""Mixing of corpora: the fractions follow the equation, and no example is preferred."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import UsageError
from headway.data.mixing import Mixture, check_weights, quotas_of

SIZES = st.lists(st.integers(1, 400), min_size=1, max_size=5)


@given(SIZES, st.floats(0.2, 20))
def test_the_fractions_are_sizes_to_the_power_of_one_over_the_temperature(sizes, temperature):
    quotas = quotas_of(sizes, (), temperature)
    powers = [size ** (1 / temperature) for size in sizes]
    assert quotas.sum() == sum(sizes)
    for quota, power in zip(quotas, powers, strict=True):
        assert abs(quota - sum(sizes) * power / sum(powers)) <= 1


def test_weights_replace_sizes_and_a_high_temperature_makes_all_equal():
    assert quotas_of([100, 300], (3.0, 1.0)).tolist() == [300, 100]
    assert quotas_of([100, 300], (9.0, 1.0), 2.0).tolist() == [300, 100]
    assert quotas_of([100, 300], (), 1e9).tolist() == [200, 200]
    assert quotas_of([100, 300]).tolist() == [100, 300]


@given(SIZES, st.data())
def test_every_example_of_a_corpus_occurs_equally_often_up_to_one(sizes, data):
    weights = tuple(data.draw(st.floats(0.1, 9)) for _ in sizes)
    quotas = tuple(quotas_of(sizes, weights).tolist())
    mixture = Mixture(sizes=tuple(sizes), quotas=quotas, seed=3)
    counts = Counter(int(i) for epoch in range(3) for i in mixture.epoch(epoch))
    start = 0
    for size, quota in zip(sizes, quotas, strict=True):
        times = [counts[i] for i in range(start, start + size)]
        assert sum(times) == 3 * quota and max(times) - min(times) <= 1
        start += size
    assert mixture.epoch(2).tolist() == mixture.epoch(2).tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0,), "one weight for each of 2 corpora, but there are 1"),
        ((1.0, 0.0), "weights must be positive numbers, but are 1.0, 0.0"),
    ],
)
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(UsageError, match=message):
        check_weights(weights, 2)
