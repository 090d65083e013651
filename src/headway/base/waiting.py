"""How long torch's idle CPU threads wait actively for the others: briefly on a busy machine.

A thread that has finished its part of a product waits for the others by computing nothing, about
1 ms by default. Beside another program it thereby takes the time that the others need: with a wait
of about 0.05 ms, after which a thread sleeps, two threads are 1.5 to 2.7 times as fast there, at
times 20 times. Alone they are up to 15 % slower, so the machine decides (docs/log/speed.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

BRIEFLY = "3000"
"""Number of turns of an idle thread's loop, about 0.05 ms."""

SAMPLES = 5
SECONDS = 0.002
"""Number of looks at the machine, and the time between two: a short task is not in all of them."""


def wait_briefly_if_busy(runnable: Callable[[], int] | None = None) -> None:
    """Let idle threads sleep soon, if torch's threads would have to share CPUs with other programs.

    It works before torch is loaded, whose library (libgomp) reads the environment once. What the
    user has set stays. runnable: returns the number of running or waiting threads of the machine.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return
    others = others_running(runnable or _runnable)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    if others + usable > (os.cpu_count() or 1):
        os.environ["GOMP_SPINCOUNT"] = BRIEFLY


def others_running(runnable: Callable[[], int]) -> int:
    """Return the number of threads of other programs that run all the time; 0 if unknown."""
    counts: list[int] = []
    while len(counts) < SAMPLES:
        if counts:
            time.sleep(SECONDS)
        try:
            counts.append(runnable() - 1)  # without this one
        except (OSError, ValueError, IndexError):
            return 0
        if counts[-1] <= 0:
            return 0  # a quiet machine is known at once, so that nothing waits at the start
    return min(counts)


def _runnable() -> int:
    """The number of threads that run or wait for a CPU, in Linux: `0.52 0.61 0.58 3/345 2731`."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[3].split("/")[0])
