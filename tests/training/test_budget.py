"""Learning rate, evaluations and checkpoints fit any budget: a number of steps, or a time."""

import pytest
import torch
from torch import nn

from headway.evaluation.scores import Metric, Scores
from headway.training import (
    Budget,
    Checkpointing,
    Evaluation,
    ScheduleConfig,
    StepReport,
    TrainingState,
    learning_rate,
)


def new_run() -> TrainingState:
    model = nn.Linear(2, 3)
    return TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1))


def follow(budget, seconds_of, observers=(), schedule=None, run=None):
    """Simulate steps of these durations until the run ends; return its state and the rates."""
    run, rates = run or new_run(), []
    while run.step < budget.steps and run.stop is None:
        seconds = seconds_of(run.step + 1)
        if schedule is not None:
            total = budget.total_steps(run.step + 1, run.seconds)
            rates.append(learning_rate(schedule, 1.0, run.step + 1, total))
        run.step += 1
        run.seconds += seconds
        report = StepReport(1.0, 1.0, 1, 1.0, 0.1, seconds)
        for observer in (budget, *observers):
            observer.after_step(run, report)
    return run, rates


def evaluations(budget, seconds=0.0, monkeypatch=None):
    steps: list[int] = []

    def evaluate(model):
        steps.append(run.step)
        clock[0] += seconds
        return Scores((Metric("bleu", float(len(steps))),))

    run, clock = new_run(), [0.0]
    if monkeypatch is not None:
        monkeypatch.setattr("headway.training.observers.time.perf_counter", lambda: clock[0])
    return run, steps, Evaluation(evaluate, "bleu", budget, lambda model: None)


@pytest.mark.parametrize("kind", ["cosine", "linear", "warmup-stable-decay", "inverse-sqrt"])
@pytest.mark.parametrize("step_seconds", [0.1, 1.0, 7.0])
def test_every_time_limit_has_a_whole_schedule(kind, step_seconds):
    """Also one of 43 steps of 7 seconds, which was a tenth of a warm-up of 400 steps before."""
    schedule = ScheduleConfig(kind=kind, warmup=0.1, decay=0.5, final=0.02)
    budget = Budget(6000, 300.0, step_seconds)
    run, rates = follow(budget, lambda step: step_seconds, schedule=schedule)
    assert run.stop == "time" and run.step == pytest.approx(300 / step_seconds, abs=1)
    highest = rates.index(max(rates))
    assert max(rates) == pytest.approx(1.0, abs=0.1)
    assert highest / len(rates) == pytest.approx(0.1, abs=0.05)
    last = 0.1**0.5 if kind == "inverse-sqrt" else 0.02
    assert rates[-1] == pytest.approx(last, abs=0.02)


def test_a_slow_start_and_a_busy_machine_change_the_pace_of_the_schedule_and_not_its_end():
    schedule = ScheduleConfig(kind="cosine", warmup=0.1, final=0.0)
    budget = Budget(10_000, 100.0)
    run, rates = follow(budget, lambda step: 5.0 if step < 4 else 0.5, schedule=schedule)
    assert run.seconds == pytest.approx(100, abs=1) and rates[-1] < 0.01
    assert max(rates) > 0.9


def test_the_steps_end_a_run_that_has_time_left():
    schedule = ScheduleConfig(kind="linear", warmup=0.2, final=0.0)
    limited = follow(Budget(20, 1e6), lambda step: 0.1, schedule=schedule)[1]
    assert limited == follow(Budget(20), lambda step: 0.1, schedule=schedule)[1]
    assert limited[3] == 1.0 and limited[-1] == 0.0


@pytest.mark.parametrize("steps", [1, 3, 20, 41])
def test_a_warm_up_that_is_longer_than_the_run_takes_half_of_it(steps):
    schedule = ScheduleConfig(kind="cosine", warmup=400.0, final=0.0)
    rates = follow(Budget(steps), lambda step: 1.0, schedule=schedule)[1]
    assert max(rates) >= (0.9 if steps > 3 else 0.3)
    assert steps == 1 or rates[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("steps", [2, 7, 20, 300, 6000])
def test_a_run_of_any_number_of_steps_is_evaluated_early_and_often(steps):
    budget = Budget(steps)
    run, evaluated, observer = evaluations(budget)
    follow(budget, lambda step: 1.0, [observer], run=run)
    assert evaluated[0] <= max(1, 0.3 * steps) and evaluated[-1] == steps
    assert 2 <= len(evaluated) <= 11


def test_evaluations_take_a_small_part_of_a_time_limit(monkeypatch):
    """Each takes 20 seconds of 300, so that the eleven of a quick evaluation would take 220."""
    budget = Budget(10_000, 300.0)
    run, evaluated, observer = evaluations(budget, 20.0, monkeypatch)
    follow(budget, lambda step: 1.0, [observer], run=run)
    assert 2 <= len(evaluated) <= 3 and evaluated[0] == 15


def test_an_interrupted_evaluation_is_due_again_after_a_resume():
    budget = Budget(100)
    run, evaluated, observer = evaluations(budget)
    run.step, run.fraction = 50, 0.5
    observer.catch_up(run)
    observer.catch_up(run)
    assert evaluated == [50] and run.evaluated_fraction == 0.5


def test_checkpoints_are_early_and_frequent_whatever_the_budget(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("headway.training.checkpoints.time.monotonic", lambda: clock[0])
    budget = Budget(10_000, 300.0)
    save = Checkpointing(tmp_path, budget, keep=100)
    follow(budget, lambda step: 10.0, [save])
    steps = sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir())
    assert steps[0] == 2 and steps[-1] == 30 and len(steps) == 11


def test_no_more_than_ten_minutes_are_lost_in_a_long_run(tmp_path):
    run, save = new_run(), Checkpointing(tmp_path, Budget(1_000_000), keep=100)
    for run.step in range(501, 531):
        run.seconds += 60.0
        save.after_step(run, StepReport(1.0, 1.0, 1, 1.0, 0.1, 60.0))
    steps = sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir())
    assert steps == [510, 520, 530]
