"""Idle threads of torch sleep soon on a busy machine, unless the user says how long they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headway.base import waiting
from headway.base.waiting import others_running, wait_briefly_if_busy


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch):
    """A machine of four CPUs, of which this process may use three; nothing is set."""
    monkeypatch.setattr(waiting, "SECONDS", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("runnable", "waits"), [(1, None), (2, None), (3, waiting.BRIEFLY), (9, waiting.BRIEFLY)]
)
def test_threads_sleep_soon_if_cpus_must_be_shared(runnable, waits):
    wait_briefly_if_busy(lambda: runnable)
    assert os.environ.get("GOMP_SPINCOUNT") == waits


@pytest.mark.parametrize(
    ("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")]
)
def test_what_the_user_has_set_stays(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    wait_briefly_if_busy(lambda: 9)
    assert os.environ[name] == value
    assert name == "GOMP_SPINCOUNT" or "GOMP_SPINCOUNT" not in os.environ


def test_a_program_counts_that_runs_in_every_sample():
    counts = iter([4, 3, 5, 3, 6])
    assert others_running(lambda: next(counts)) == 2


def test_a_quiet_machine_is_looked_at_once():
    counts = iter([1])
    assert others_running(lambda: next(counts)) == 0


@pytest.mark.parametrize("error", [FileNotFoundError(), ValueError(), IndexError()])
def test_a_machine_that_does_not_tell_is_not_busy(error):
    def unknown():
        raise error

    assert others_running(unknown) == 0


def test_the_library_decides_before_torch_is_loaded():
    code = (
        "import sys, headway; print('headway.base.waiting' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "headway.base.waiting", "torch"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "False"]
