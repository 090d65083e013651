"""The learning-rate range test: how the rate rises, when it ends, and what a curve suggests."""

import math

import numpy as np
import pytest
import torch

from headway.runs.rate_test import Curve, RisingRate, suggested
from headway.training import StepReport, TrainingState

RATES = [float(rate) for rate in np.geomspace(1e-6, 1e-1, 100)]


def curve(loss, end="diverged", noise=0.0, updates=100):
    """A curve of `loss(log10 of the rate)`. noise: standard deviation of added random numbers."""
    random = np.random.default_rng(0)
    losses = [loss(math.log10(rate)) + noise * random.normal() for rate in RATES[:updates]]
    return Curve(RATES[:updates], losses, end)


def step(at, width):
    """A loss that falls from 4 to 2 around the logarithm `at`."""
    return lambda x: 3 - math.tanh((x - at) / width)


def bowl(x):
    """A loss that falls fastest at 1e-4, is lowest between 1e-3 and 1e-2, and then rises."""
    return step(-4, 0.5)(x) + 8 * max(0.0, x + 2.2) ** 2


def test_the_steepest_descent_is_suggested_where_the_minimum_is_far_above_it():
    found = suggested(curve(bowl))
    assert found.rate == found.steepest == pytest.approx(1e-4, rel=0.15)
    assert 1e-3 < found.minimum < 1e-2 and "falls fastest" in found.reason


def test_a_tenth_of_the_minimum_is_suggested_where_the_loss_falls_fastest_close_to_it():
    found = suggested(curve(lambda x: step(-3, 0.2)(x) + 90 * max(0.0, x + 2.95)))
    assert found.rate == pytest.approx(found.minimum / 10) and found.rate < found.steepest
    assert "a tenth of" in found.reason


def test_noise_on_the_losses_hardly_moves_the_suggestion():
    smooth, noisy = suggested(curve(bowl)), suggested(curve(bowl, noise=0.15))
    assert 0.4 < noisy.rate / smooth.rate < 2.5


@pytest.mark.parametrize(
    ("loss", "noise", "end", "words"),
    [
        (lambda x: 2.0 + 9 * max(0.0, x + 2), 0.0, "diverged", "where it diverged"),
        (lambda x: 2.0, 0.0, "done", "the highest of the test"),
        (lambda x: 2.0, 0.4, "done", "beside a noise of 0."),
        (lambda x: 2.0 + 0.1 * (x + 6), 0.0, "done", "and fell by 0.0"),
    ],
)
def test_a_loss_that_does_not_fall_suggests_no_rate_and_says_so(loss, noise, end, words):
    found = suggested(curve(loss, end, noise))
    assert found.rate is None and found.minimum is None
    assert "did not fall at any rate from 1.0e-06 to" in found.reason and words in found.reason


def test_a_loss_that_still_falls_at_the_highest_rate_has_no_minimum():
    found = suggested(curve(step(-2, 1.5), end="done"))
    assert found.minimum is None and found.rate == found.steepest
    assert "no minimum" in found.reason and "1.0e-01" in found.reason


def observed(rising, losses, seconds=0.01):
    """Run the observer over losses until it stops; return its rates and the reason."""
    with torch.random.fork_rng([]):
        model = torch.nn.Linear(2, 2)
    run, rates = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1)), []
    for number, loss in enumerate(losses, 1):
        rates.append(rising.rate(number))
        report = StepReport(loss, loss, 1, 1.0, rates[-1], seconds)
        rising.after_step(run, report)
        if run.stop:
            break
    return rates, run.stop


@pytest.mark.parametrize("updates", [10, 37, 100])
def test_the_rate_rises_by_the_same_factor_from_the_lowest_to_the_highest(updates):
    rates, stop = observed(RisingRate(1e-6, 1e-1, updates), [2.0] * 500)
    assert stop == "done" and len(rates) == updates
    assert rates == pytest.approx(np.geomspace(1e-6, 1e-1, updates))


def test_slow_updates_raise_the_rate_faster_but_there_are_still_twenty_five():
    rates, _ = observed(RisingRate(1e-6, 1e-1, seconds=10.0), [2.0] * 500, seconds=0.2)
    assert len(rates) == 51 and rates[-1] == pytest.approx(1e-1)
    rates, _ = observed(RisingRate(1e-6, 1e-1, seconds=10.0), [2.0] * 500, seconds=99.0)
    assert len(rates) == 25


def test_the_test_ends_when_the_mean_loss_is_twice_its_lowest_not_after_one_bad_batch():
    losses = [4.0] * 40 + [2.0] * 20 + [9.0] + [2.0] * 10 + [9.0] * 30
    rates, stop = observed(RisingRate(1e-6, 1e-1), losses)
    assert stop == "diverged" and 72 <= len(rates) < 80
