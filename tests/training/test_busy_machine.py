"""A run notices programs that begin later, by its steps, and lets its idle threads sleep soon."""

import os

import pytest
import torch

from headway.base.devices import Machine
from headway.base.waiting import BriefWait
from headway.training import TrainingState, beside_others
from headway.training.busy_machine import QUIET_SECONDS, BusyMachine
from headway.training.state import StepReport

CPUS = 4


class Fake(BriefWait):
    """A wait that changes nothing, or that cannot be changed."""

    def __init__(self, is_possible=True):
        self.is_possible, self.calls, self.on = is_possible, [], False

    @property
    def is_on(self):
        return self.on

    def begin(self, threads):
        self.calls.append("begin")
        self.on = self.is_possible
        return self.on

    def end(self):
        self.calls.append("end")
        self.on = False


class Steps:
    """A run of two threads on four CPUs, whose steps take what a test says."""

    def __init__(self, monkeypatch, *, is_possible=True):
        monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
        self.now, self.others, self.looks, self.notes = 0.0, 0, 0, []
        self.wait = Fake(is_possible)
        self.observer = BusyMachine(2, self.wait, self._look, lambda: self.now)
        model = torch.nn.Linear(1, 1)
        self.run = TrainingState(model, torch.optim.SGD(model.parameters(), 0.1))
        self.run.listeners.append(lambda event: self.notes.append(event["text"]))

    def _look(self):
        self.looks += 1
        return self.others

    def take(self, seconds, *durations, targets=100):
        """Take steps for a time, of these durations by turns."""
        end, number = self.now + seconds, 0
        while self.now < end:
            took = durations[number % len(durations)]
            self.now, number = self.now + took, number + 1
            self.observer.after_step(self.run, StepReport(1.0, 1.0, targets, 1.0, 0.1, took))


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


def test_idle_threads_sleep_soon_while_other_programs_run(steps):
    steps.take(60, 0.1)
    assert "begin" not in steps.wait.calls
    steps.others = 3
    steps.take(60, 0.1)
    assert steps.wait.is_on
    steps.others = 2  # which leave two CPUs
    steps.take(11, 0.1)
    assert not steps.wait.is_on and steps.notes == []


def test_a_note_says_how_much_slower_the_steps_are(steps):
    steps.take(60, 0.1)
    steps.others = 3
    steps.take(60, 0.4)
    (note,) = steps.notes
    assert "4.0 times as long as before: 3 threads run in other programs" in note
    assert "sleep soon meanwhile, which changes no result" in note


def test_long_steps_are_compared_once_there_are_enough(steps):
    steps.take(300, 15)
    steps.others = 3
    steps.take(15 * 5, 60)
    assert steps.wait.is_on and steps.notes == []
    steps.take(60 * 8, 60)
    assert len(steps.notes) == 1


def test_nothing_is_said_on_a_quiet_machine(steps):
    steps.take(60, 0.1)
    steps.take(60, 1.0)
    assert steps.looks and steps.notes == [] and "begin" not in steps.wait.calls


@pytest.mark.parametrize("durations", [[0.1] * 9 + [30], [0.05, 0.15], [0.15]])
def test_nothing_is_said_of_steps_that_are_seldom_long_or_little_longer(steps, durations):
    """A few long batches, turns of short and long ones, or a machine that is a little slower."""
    steps.others = 9
    steps.take(60, 0.1)
    steps.take(600, *durations)
    assert steps.notes == []


def test_larger_batches_take_longer(steps):
    steps.others = 9
    steps.take(60, 0.1)
    steps.take(60, 0.8, targets=800)
    assert steps.notes == []


def test_nothing_is_said_of_a_moment(steps):
    steps.take(60, 0.1)
    steps.others = 3
    steps.take(3, 1.0)
    steps.take(60, 0.1)
    assert steps.notes == []


def test_a_wait_that_cannot_be_changed_is_said_once_in_ten_minutes(monkeypatch):
    steps = Steps(monkeypatch, is_possible=False)
    steps.take(60, 0.1)
    steps.others = 3
    steps.take(QUIET_SECONDS - 60, 0.4)
    (note,) = steps.notes
    assert "end those, or this run by Ctrl-C: the same command continues it exactly" in note
    steps.take(QUIET_SECONDS, 0.4)
    assert len(steps.notes) == 2


@pytest.mark.parametrize(
    ("device", "threads", "variable", "number"),
    [
        ("cpu", 2, None, 1),
        ("cpu", 1, None, 0),
        ("cuda", 2, None, 0),
        ("cpu", 2, "GOMP_SPINCOUNT", 0),
        ("cpu", 2, "OMP_WAIT_POLICY", 0),
    ],
)
def test_a_run_is_observed_whose_threads_wait_long(device, threads, variable, number, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "3000")
    with beside_others(Machine(device, "float32", threads)) as observers:
        assert len(observers) == number
