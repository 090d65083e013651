"""Ctrl-C and SIGTERM: finish the step, save, leave. Twice: leave now."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """A flag that is read between micro-batches and while evaluating."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def graceful_stop() -> Iterator[StopRequest]:
    """Inside the block the first SIGINT or SIGTERM only sets the flag; the second ends at once."""
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if request:
            os._exit(128 + number)
        request.signal = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
