"""The number of CPU threads of a run: the fastest when it starts, recorded, the same later."""

from dataclasses import replace

import pytest
import torch

import headway
from headway.base import threads
from headway.base.errors import UsageError
from headway.runs import saved
from headway.tasks.registry import task
from tests.fixtures.command_line import headway as command_line
from tests.fixtures.command_line import write_corpus
from tests.fixtures.tiny_settings import TRANSLATOR


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus")

    def train(steps=2, **changes):
        settings = {
            **TRANSLATOR,
            **{f"machine.{name}": value for name, value in changes.items()},
        }
        return headway.train(
            "translate", data="corpus", steps=steps, run="x", settings=settings, quiet=True
        )

    return train


@pytest.fixture
def probed(monkeypatch):
    """A list of the number that the probe finds.

    torch is asked for that number, and goes on with one thread: two threads on busy cores wait for
    each other.
    """
    numbers, current = [2], [1]
    monkeypatch.setattr(torch, "set_num_threads", lambda number: current.append(number))
    monkeypatch.setattr(torch, "get_num_threads", lambda: current[-1])
    monkeypatch.setattr(threads, "_is_of_user", lambda number: False)
    monkeypatch.setattr(threads, "_cpus", lambda: {0, 1})
    monkeypatch.setattr(threads, "fastest_threads", lambda **_: numbers[0])
    return numbers


def test_a_new_run_has_the_fastest_number_and_records_it(train, probed):
    run = train()
    assert saved(run.folder).machine.threads == torch.get_num_threads() == 2
    assert "cpu (2 threads)" in run.history("plan")[0]["machine"]


def test_the_same_command_keeps_the_recorded_number(train, probed):
    train()
    probed[:] = [1]
    torch.set_num_threads(1)
    run = train()
    assert saved(run.folder).machine.threads == torch.get_num_threads() == 2


def test_a_number_that_is_set_is_not_probed_and_another_one_is_refused(train, monkeypatch):
    monkeypatch.setattr(threads, "fastest_threads", lambda **_: pytest.fail("it was set"))
    assert saved(train(threads=1).folder).machine.threads == 1
    with pytest.raises(UsageError, match=r"machine\.threads: 1 in the run, 2 now"):
        train(threads=2)


def test_a_run_is_evaluated_with_its_number(train, probed, monkeypatch, tmp_path):
    """By the command line and in Python, unless the user names another number."""
    run = train()
    numbers = []
    evaluate = task("translation").evaluate

    def noted(*arguments):
        numbers.append(torch.get_num_threads())
        return evaluate(*arguments)

    watched = replace(task("translation"), score=noted)
    monkeypatch.setattr("headway.runs.evaluation.evaluating_task", lambda *arguments: watched)
    probed[:] = [1]
    torch.set_num_threads(1)
    headway.evaluate(run.folder)
    headway.evaluate(run.bundle, tmp_path / "corpus" / "test.tsv")  # of no run
    command_line("eval", str(run.folder), cwd=tmp_path)
    command_line("eval", str(run.folder), "--threads", "1", cwd=tmp_path)
    assert numbers == [2, 1, 2, 1]
