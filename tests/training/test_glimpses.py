"""Glimpses are log-spaced, affordable, and leave the run as it was."""

import itertools
from dataclasses import replace

import pytest
import torch

from headway.training import Glimpses, StepReport, TrainingState

REPORT = StepReport(loss=2.0, nats=2.0, targets=1, grad_norm=1.0, lr=0.1, seconds=1.0)


def filmed(steps, first=0, last=None, *, cost=0.0, evaluated=(), look=None, loss=lambda step: 2.0):
    """Step numbers of the glimpses of a run whose steps take a second, from `first` to `last`."""
    with torch.random.fork_rng([]):
        model = torch.nn.Linear(2, 2)
    run = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1))
    run.step, run.fraction, run.seconds = first, first / steps, float(first)
    seen = []
    times = itertools.count(0.0, cost)
    glimpses = Glimpses(
        look or (lambda model, step, loss: seen.append((step, loss))), lambda: next(times)
    )
    glimpses.begin(run)
    for step in range(first + 1, (last or steps) + 1):
        run.step, run.fraction, run.seconds = step, step / steps, float(step)
        if step in evaluated:
            run.evaluated = step
        model.train()
        glimpses.after_step(run, replace(REPORT, loss=loss(step)))
    return seen


@pytest.mark.parametrize("steps", [400, 3_000, 100_000])
def test_about_forty_glimpses_are_log_spaced_from_the_first_step_to_the_last(steps):
    at = [step for step, _ in filmed(steps)]
    assert at[0] == 0 and at[-1] == steps and at == sorted(set(at)) and 25 <= len(at) <= 41
    gaps = [after - before for before, after in itertools.pairwise(at)]
    assert gaps[-1] > 10 * gaps[1] and all(b >= a - 1 for a, b in itertools.pairwise(gaps))


def test_a_resumed_run_takes_the_glimpses_that_the_whole_run_takes():
    whole = filmed(500)
    assert filmed(500, last=123) + filmed(500, first=123) == whole


def test_glimpses_take_no_more_than_their_part_of_the_time():
    """A glimpse of one second every second of training leaves room for 1.5 % of 1,000 steps."""
    assert 10 <= len(filmed(1000, cost=1.0)) <= 16
    assert len(filmed(20, cost=1.0)) == 1


def test_each_evaluation_has_a_glimpse_even_where_no_other_is_affordable():
    assert filmed(20, cost=5.0, evaluated={7, 20}) == [(0, None), (7, 2.0), (20, 2.0)]


def test_evaluations_close_to_each_other_or_to_another_glimpse_have_none():
    """Ten evaluations of a short run would take more time than the film is worth."""
    tenths = set(range(100, 1001, 100))
    assert len(filmed(1000, cost=1.0, evaluated=tenths)) <= 16
    assert len(filmed(1000, cost=50.0, evaluated=tenths)) <= 5


def test_a_glimpse_that_draws_random_numbers_does_not_change_those_of_the_run():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    modes = []

    def look(model, step, loss):
        modes.append(model.training)
        torch.rand(100)

    filmed(50, look=look)
    assert torch.equal(torch.rand(4), expected) and modes and not any(modes)


def test_the_loss_of_a_glimpse_is_the_mean_of_the_steps_since_the_one_before():
    """A curve of such means has no kink: batches alternate, and the mean hides it more and more."""
    seen = filmed(3_000, loss=lambda step: 2.0 + (-1) ** step)
    losses = [loss for _, loss in seen]
    assert losses[0] is None
    for (before, _), (step, loss) in itertools.pairwise(seen):
        assert loss == pytest.approx(
            sum(2.0 + (-1) ** one for one in range(before + 1, step + 1)) / (step - before)
        )
    assert abs(losses[-1] - 2.0) < 0.01
