"""Learning-rate schedules, compared with the papers' formulas and with exact numbers."""

import pytest

from headway.training import ScheduleConfig, learning_rate


def test_the_papers_schedule():
    """D^-1/2 min(s^-1/2, s w^-3/2), whose peak is D^-1/2 w^-1/2."""
    config, width, warmup = ScheduleConfig(kind="inverse-sqrt", warmup=400.0), 512, 400
    peak = width**-0.5 * warmup**-0.5
    for step in (1, 399, 400, 401, 10_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(config, peak, step, 20_000) == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_schedules_with_an_end_rise_fall_and_end(kind):
    config = ScheduleConfig(kind=kind, warmup=10.0, final=0.1)
    rates = [learning_rate(config, 2.0, step, 100) for step in range(1, 121)]
    assert rates[0] == 0.2 and rates[9] == 2.0 == max(rates)
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[99] == rates[-1] == pytest.approx(0.2)
    halfway = learning_rate(config, 2.0, 55, 100)
    assert halfway == pytest.approx(2.0 * 0.55)
    with pytest.raises(ValueError, match="at least 1"):
        learning_rate(config, 2.0, 0, 100)


def test_warmup_stable_decay_falls_by_one_minus_a_root_over_the_last_fraction_of_the_steps():
    config = ScheduleConfig(kind="warmup-stable-decay", warmup=4.0, final=0.1)
    rates = [learning_rate(config, 2.0, step, 100) for step in range(1, 103)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert rates[3:80] == [2.0] * 77  # step 80 is the last at the full rate
    assert rates[80] == pytest.approx(2.0 * (0.1 + 0.9 * (1 - (1 / 20) ** 0.5)), rel=1e-12)
    assert rates[84] == pytest.approx(2.0 * 0.55, rel=1e-12)  # a quarter of the fall, half of it
    assert rates[79:100] == sorted(rates[79:100], reverse=True)
    assert rates[99] == rates[100] == rates[101] == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "total", "expected"),
    [
        ({"warmup": 0.0, "decay": 1.0}, 4, [0.5, 1 - 0.5**0.5, 1 - 0.75**0.5, 0]),
        ({"warmup": 3.0, "decay": 1.0}, 4, [1 / 3, 2 / 3, 1, 0]),  # no step left at the full rate
        ({"warmup": 0.25, "decay": 0.25}, 4, [1, 1, 1, 0]),  # a fraction of the steps
        ({"warmup": 5.0, "decay": 0.5}, 4, [0.5, 1, 1 - 0.5**0.5, 0]),  # half of the steps warm up
        (
            {"warmup": 1.0, "decay": 0.01, "final": 0.0},
            4,
            [1, 1, 1, 1],
        ),  # less than half a step: no fall
        ({"warmup": 1.0, "decay": 0.25}, 4, [1, 1, 1, 0]),
        ({"warmup": 0.0, "decay": 0.2, "final": 1.0}, 3, [1, 1, 1]),
    ],
)
def test_the_edges_of_warmup_stable_decay(changes, total, expected):
    config = ScheduleConfig(kind="warmup-stable-decay", **{"final": 0.0, **changes})
    rates = [learning_rate(config, 1.0, step, total) for step in range(1, total + 1)]
    assert rates == pytest.approx(expected, abs=1e-12)
