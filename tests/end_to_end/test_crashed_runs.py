"""Whole runs that lose power, disk, memory or the time of day: the same command ends bit-identical.

The rows of single files and folders are in `test_crash_matrix.py`.
"""

import errno
import os
import shutil
import time

import pytest
import torch

from headway.training import checkpoints
from tests.fixtures.command_line import headway, train_words, write_corpus
from tests.fixtures.ended_runs import is_same_end
from tests.fixtures.file_operations import (
    WRITING,
    failing,
    operations_of,
    power_losses,
    temporary_files,
    watched,
    written,
)

STEPS = 8
MORE = (
    *("--steps", str(STEPS), "--training.accumulate", "2", "--checkpoint.every", "2"),
    *("--evaluation.every", "3", "--quiet"),
)
CASES = 24
"""Number of moments of a run, evenly spaced, at which something happens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `data` and the undisturbed run `runs/whole`."""
    folder = tmp_path_factory.mktemp("crashed")
    write_corpus(folder / "data")
    train(folder, "whole")
    return folder


def train(folder, name, check=0):
    return headway(*train_words(folder / "data", name, *MORE), cwd=folder, check=check)


def check_end(folder, name):
    """Check that the same command, without intervention, ends as the undisturbed run."""
    train(folder, name)
    run = folder / "runs" / name
    assert is_same_end(run, folder / "runs" / "whole", STEPS)
    assert not temporary_files(run)
    shutil.rmtree(run)


def end_out_of_memory(folder, name, monkeypatch, call, error=MemoryError):
    """Train until the backward pass of this number fails, after the checkpoint of an earlier step.

    Two calls belong to a step.
    """
    backward, calls = torch.autograd.backward, []

    def limited(*arguments, **named):
        calls.append(1)
        if len(calls) == call:
            raise error("out of memory: tried to allocate 2.00 GiB")
        return backward(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(torch.autograd, "backward", limited)
        ended = train(folder, name, check=4)
    assert "out of memory" in ended.stderr and "--machine.micro-batches" in ended.stderr
    assert len(calls) == call


@pytest.mark.turns(3)
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
@pytest.mark.parametrize("call", [11, 5, 14])
def test_a_run_out_of_memory_in_mid_epoch_resumes_bit_identical(folder, monkeypatch, error, call):
    end_out_of_memory(folder, "memory", monkeypatch, call, error)
    check_end(folder, "memory")


@pytest.mark.turns(2)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_clock_that_goes_back_changes_nothing(folder, monkeypatch, resumed):
    if resumed:
        end_out_of_memory(folder, "clock", monkeypatch, call=11)
        assert (folder / "runs" / "clock" / "checkpoints" / "step-4").is_dir()
        for path in (folder / "runs" / "clock").rglob("*"):
            os.utime(path, (2e9, 2e9))  # in the future
    seconds = iter(range(10**9, 0, -86400))
    monkeypatch.setattr(time, "time", lambda: float(next(seconds)))
    check_end(folder, "clock")


@pytest.fixture
def waits_for_saves(monkeypatch):
    """A run that waits for each checkpoint: the states of a folder are recorded by one thread. What
    a thread of its own writes is a row of the crash matrix."""
    monkeypatch.setattr(checkpoints, "copy_fits", lambda run: False)


@pytest.mark.slow
@pytest.mark.usefixtures("waits_for_saves")
@pytest.mark.parametrize("model", ["written", "flushed", "names first"])
def test_a_run_that_loses_power_ends_bit_identical(folder, model):
    run = folder / "runs" / "power"
    run.mkdir()
    states = [s for s in power_losses(run, lambda: train(folder, "power")) if s[0] == model]
    shutil.rmtree(run)
    for _, _, tree in states[:: -(-len(states) // CASES)]:
        written(tree, run)
        check_end(folder, "power")


@pytest.mark.slow
@pytest.mark.usefixtures("waits_for_saves")
@pytest.mark.parametrize(
    ("number", "kinds"),
    [(errno.EIO, None), (errno.ENOSPC, WRITING)],
    ids=["I/O error", "full disk"],
)
def test_a_run_whose_disk_fails_says_so_and_then_ends_bit_identical(folder, number, kinds):
    run = folder / "runs" / "disk"
    operations = operations_of(run, lambda: train(folder, "disk"))
    shutil.rmtree(run)
    chosen = [o.number for o in operations if kinds is None or o.name in kinds]
    failed = 0
    for moment in chosen[:: -(-len(chosen) // CASES)]:
        with watched(run, failing(moment, number, kinds)):
            ended = train(folder, "disk", check=None)
        assert "unexpected" not in ended.stderr, operations[moment]
        assert ended.returncode == 0 or os.strerror(number) in ended.stderr, operations[moment]
        failed += ended.returncode != 0
        check_end(folder, "disk")
    assert failed > CASES // 2
