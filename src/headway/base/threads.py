"""The number of CPU threads of this process: the user's, a run's, or the fastest one.

torch begins with one thread for each core. Beside other programs that can be many times slower than
one thread, since every product waits for the slowest of its threads. So Headway measures which
number is fastest, unless the user has set one.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that set torch's number of threads."""


@dataclass
class _Settled:
    """What Headway has set in this process. number: the number of threads; None if it has not set
    one. most: torch's own number, before Headway first set one."""

    number: int | None = None
    most: int = 0


_settled = _Settled()


def settle_threads(number: int | None = None, *, rows: int = 16) -> int:
    """Set the number of CPU threads of this process, and return it.

    number: the number to set. If None, a number that the user has set, by an environment variable
    or by `torch.set_num_threads`, stays; otherwise the fastest number is measured, by products of
    `rows` vectors.
    """
    import torch

    current = torch.get_num_threads()
    _settled.most = _settled.most or current
    if number is None and not _is_of_user(current):
        torch.set_num_threads(_settled.most)
        number = fastest_threads(rows=rows)
    number = number or current
    torch.set_num_threads(number)
    _settled.number = number
    return number


def settle_threads_once() -> None:
    """Settle the number of threads, unless Headway has done so in this process."""
    if _settled.number is None:
        settle_threads()


@contextmanager
def threads_of_run(number: int | None) -> Iterator[None]:
    """Compute with the number of threads of a run in the block, since it determines the last digits
    of results. None, a number in the environment, or more threads than CPUs change nothing."""
    import torch

    before = torch.get_num_threads()
    if number is None or _is_in_environment() or number > len(_cpus()):
        number = before
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_of_user(number: int) -> bool:
    """Whether the user has set this number, which torch has now.

    torch does not say who set it: any number that is neither torch's own nor Headway's is the
    user's.
    """
    if _is_in_environment():
        return True
    if _settled.number is not None:
        return number != _settled.number
    return number not in _own_numbers()


def _is_in_environment() -> bool:
    return any(os.environ.get(name) for name in VARIABLES)


def _own_numbers() -> set[int]:
    """The numbers with which torch may begin: of CPUs, and of cores, that this process may use."""
    cpus = _cpus()
    cores = set()
    for cpu in cpus:
        with suppress(OSError):
            path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            cores.add(path.read_text(encoding="ascii").strip())
    # without the list of cores, as on macOS, any number up to that of CPUs may be torch's
    return {len(cpus), len(cores)} if cores else set(range(1, len(cpus) + 1))


def _cpus() -> set[int]:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


ROUNDS = 6
"""How often each number of threads is timed."""


def fastest_threads(*, rows: int = 16) -> int:
    """Return the number of CPU threads that is fastest now, at most torch's own number.

    Products of `rows` vectors are timed with each number, by turns: few vectors, as in decoding, or
    many, as in training. With n threads a
    product waits for the slowest of them, so that two beside a busy process can be five times as
    slow as one. More threads are used only if they are 10 % faster. Takes about 0.2 s.
    """
    import torch

    if torch.get_num_threads() == 1:
        return 1
    # in a thread that ends, and with it the threads that computed for it: see cli/serve.py
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_timed_threads, rows).result()


def _timed_threads(rows: int) -> int:
    import torch

    most = torch.get_num_threads()
    numbers = sorted({1, most, *(2**n for n in range(most.bit_length()) if 2**n <= most)})
    x, weight = torch.randn(rows, 512), torch.randn(2048, 512)
    times = max(1, 240 // rows)
    seconds = dict.fromkeys(numbers, 0.0)
    for _ in range(ROUNDS):
        for number in numbers:
            torch.set_num_threads(number)
            torch.nn.functional.linear(x, weight)  # wakes the threads
            begun = time.perf_counter()
            for _ in range(times):
                torch.nn.functional.linear(x, weight)
            seconds[number] += time.perf_counter() - begun
    torch.set_num_threads(most)
    best = 1
    for number in numbers:
        if seconds[number] < 0.9 * seconds[best]:
            best = number
    return best
