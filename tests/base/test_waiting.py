"""Idle threads of torch sleep soon on a busy machine, unless the user says how long they wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from io import StringIO

import pytest
import torch

from headway.base import waiting
from headway.base.waiting import BriefWait, others_running, wait_briefly_if_busy


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


def threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is torch's library in Linux")
def test_idle_threads_of_a_process_that_has_begun_can_sleep_soon():
    """libgomp lets them, if it has more threads than there are CPUs."""
    x, weight = torch.randn(64, 256), torch.randn(256, 256)
    expected, number = x @ weight, torch.get_num_threads()
    wait, before = BriefWait(), threads()
    assert wait.begin(number) and wait.begin(number) and wait.is_on
    assert threads() >= before + 2, "one thread, and at least one of libgomp"
    assert torch.get_num_threads() == number and torch.equal(x @ weight, expected)
    wait.end()
    wait.end()
    until = time.monotonic() + 20
    while threads() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert not wait.is_on and threads() <= before


def test_a_process_without_libgomp_cannot_change_how_long_its_threads_wait(monkeypatch):
    monkeypatch.setattr(waiting, "_loaded_libraries", lambda name: [])
    assert not BriefWait().begin(2)


def test_other_threads_of_this_process_are_no_other_program(monkeypatch):
    files = {
        "/proc/loadavg": "0.52 0.61 0.58 5/345 2731",
        "/proc/self/task/7/stat": "7 (python) R 1 2",
        "/proc/self/task/8/stat": "8 (a) S name) R 1 2",
        "/proc/self/task/9/stat": "9 (pt_autograd) S 1 2",
    }

    def read(path, encoding):
        if path not in files:
            raise FileNotFoundError(path)  # the thread has ended
        return StringIO(files[path])

    monkeypatch.setattr(waiting, "open", read, raising=False)
    monkeypatch.setattr(os, "listdir", lambda path: ["7", "8", "9", "10"])
    assert others_running() == 3


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
