"""How long torch's idle CPU threads wait actively for the others: briefly on a busy machine.

A thread that has finished its part of a product waits for the others by computing nothing, about
1 ms by default. Beside another program it thereby takes the time that the others need: with a wait
of about 0.05 ms, after which a thread sleeps, two threads are 1.5 to 2.7 times as fast there, at
times 20 times. Alone they are up to 15 % slower, so the machine decides (docs/log/speed.md).
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

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
    if is_settled():
        return
    if others_running(runnable) + _usable_cpus() > (os.cpu_count() or 1):
        os.environ["GOMP_SPINCOUNT"] = BRIEFLY


def is_settled() -> bool:
    """Return whether the user, or Headway at its import, has set how long idle threads wait."""
    return "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


class BriefWait:
    """Lets idle threads sleep soon, or wait actively again, in a process that has begun.

    libgomp reads its settings once. But where it has started more threads than there are CPUs, it
    lets all that are idle sleep after about 1 us. So `begin` starts some that only sleep. The
    number of threads that compute stays, and every result with it.
    """

    def __init__(self) -> None:
        self._ending: threading.Event | None = None

    @property
    def is_on(self) -> bool:
        """Whether idle threads sleep soon."""
        return self._ending is not None

    def begin(self, threads: int) -> bool:
        """Let idle threads sleep soon; return whether it is possible, which needs libgomp.

        threads: the number of threads that compute.
        """
        libraries = _loaded_libraries("libgomp")
        if self.is_on or not libraries:
            return self.is_on
        ready, ending = threading.Event(), threading.Event()

        def sleep() -> None:
            for library in libraries:
                # of this thread and those that libgomp starts for it; the function does nothing
                function = ctypes.cast(library.omp_in_parallel, ctypes.c_void_p)
                library.GOMP_parallel(function, None, max(2, _usable_cpus() - threads + 2), 0)
            ready.set()
            ending.wait()  # libgomp ends its threads with this one

        threading.Thread(target=sleep, name="brief waits", daemon=True).start()
        ready.wait()
        self._ending = ending
        return True

    def end(self) -> None:
        """Let idle threads wait actively again."""
        if self._ending is not None:
            self._ending.set()
            self._ending = None


def _loaded_libraries(name: str) -> list[ctypes.CDLL]:
    """Return the shared libraries of this process whose file name begins so, in Linux."""
    paths: set[str] = set()
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if f"/{name}" in line}
    return [ctypes.CDLL(path) for path in sorted(paths)]


def others_running(runnable: Callable[[], int] | None = None) -> int:
    """Return the number of threads of other programs that run all the time; 0 if unknown."""
    runnable = runnable or _runnable
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
    """The number of threads that run or wait for a CPU, of this process only the calling one.

    In Linux: `0.52 0.61 0.58 3/345 2731`, and the state after the name in `2731 (python) R 1 ...`.
    """
    with open("/proc/loadavg", encoding="ascii") as file:
        running = int(file.read().split()[3].split("/")[0])
    own = 0
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/stat", encoding="utf-8") as file:
            own += file.read().rpartition(")")[2].split()[0] == "R"
    return running - own + 1
