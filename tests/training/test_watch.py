"""A process that does not arrive is named, with what the others wait for."""

import os
import signal
import sys
import threading
import time
import warnings
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from headway.base import ranks as ranks_module
from headway.base import watch as watch_module
from headway.base.errors import HeadwayWarning
from headway.base.ranks import started
from headway.base.watch import STUCK, Watch
from tests.fixtures.ranks import run_ranks, start_ranks


def wait_for_process_1(sleep):
    """Return a function for two processes: process 0 waits while process 1 does `sleep(watch)`."""

    def run():
        ranks_module.Watch = partial(Watch, seconds=4.0)
        with started(lambda error: print(error, file=sys.stderr)) as ranks:
            ranks.totals([0.0], "step 1")
            if ranks.rank == 1:
                sleep(ranks.watch)
            ranks.totals([0.0], "the gradients of step 2")

    return run


@pytest.mark.turns(2)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_stuck_process_is_named_with_what_the_others_wait_for(tmp_path, is_stopped):
    def stop(watch):
        with watch.long("a checkpoint"):
            time.sleep(2)  # what a process does is known after a second
            os.kill(os.getpid(), signal.SIGSTOP)

    run = wait_for_process_1(stop if is_stopped else lambda watch: time.sleep(600))
    children = start_ranks(run, 2, tmp_path)
    try:
        assert children[0].wait(120) == STUCK
    finally:
        for child in children:
            child.kill()
            child.wait()
    printed = (tmp_path / "rank-0.txt").read_text()
    last = "a checkpoint" if is_stopped else "step 1"
    assert "process 1 of 2 has shown no progress for" in printed
    assert f"its last operation was: {last}; process 0 waits for: the gradients" in printed


def test_a_process_that_does_not_start_is_named_and_waited_for(tmp_path):
    def run():
        warnings.simplefilter("always", HeadwayWarning)
        warnings.showwarning = lambda message, *place: print(message)
        ranks_module.Watch = partial(Watch, seconds=0.5)
        if os.environ["RANK"] == "2":
            time.sleep(3)
        with started(lambda error: print(error, file=sys.stderr)) as ranks:
            print(ranks.totals([1.0], "the processes"))

    printed = run_ranks(run, 3, tmp_path)
    assert "of 3 processes, these have not started after" in printed[0] and ": 2\n" in printed[0]
    assert all("[3.0]" in text for text in printed)
    assert not any("not started" in text for text in printed[1:])


def test_a_process_that_stops_in_a_step_of_a_divided_model_is_named(tmp_path):
    """torch gathers parameters at any time of a step, after the sums that are watched, too."""

    def run():
        ranks_module.Watch = partial(Watch, seconds=4.0)
        with (
            started(lambda error: print(error, file=sys.stderr)) as ranks,
            ranks.waiting("step 1"),
        ):
            ranks.totals([0.0], "the losses of step 1")
            if ranks.rank == 1:
                time.sleep(2)
                os.kill(os.getpid(), signal.SIGSTOP)
            distributed.all_reduce(torch.zeros(1))

    children = start_ranks(run, 2, tmp_path)
    try:
        assert children[0].wait(120) == STUCK
    finally:
        for child in children:
            child.kill()
            child.wait()
    printed = (tmp_path / "rank-0.txt").read_text()
    assert "process 1 of 2 has shown no progress for" in printed
    assert "process 0 waits for: the losses of step 1" in printed


@pytest.mark.slow
def test_a_process_that_gets_no_cpu_itself_names_no_other(tmp_path, monkeypatch):
    """Its thread is as late as the step of the other process."""

    class Late(threading.Event):
        def wait(self, timeout=None):
            time.sleep(2.5)
            return super().wait(timeout)

    of_watch = SimpleNamespace(Event=Late, Thread=threading.Thread)
    monkeypatch.setattr(watch_module, "threading", of_watch)
    assert run_ranks(wait_for_process_1(lambda watch: time.sleep(8)), 2, tmp_path) == ["", ""]


def test_a_long_operation_may_take_longer(tmp_path):
    def save(watch):
        with watch.long("a checkpoint"):
            time.sleep(7)

    assert run_ranks(wait_for_process_1(save), 2, tmp_path) == ["", ""]
