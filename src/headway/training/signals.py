"""Handling of Ctrl-C, SIGTERM and SIGUSR1: the first finishes the step and saves, the second exits.

SLURM and other schedulers announce the end of a job by SIGUSR1 (`sbatch --signal`)."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""The signals that end a run."""


class StopRequest:
    """Flag that a signal sets. It is read between steps and during evaluation."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def stops_handled(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside the block, the function handles the signals that end a run."""
    before = {number: signal.signal(number, handle) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def graceful_stop() -> Iterator[StopRequest]:
    """Inside the block, the first of `STOPS` sets the flag; the second exits at once."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request:
            os._exit(128 + number)
        request.signal = number

    with stops_handled(handle):
        yield request
