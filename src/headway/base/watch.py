"""Names a process that does not arrive where the others wait for it.

Each rank has a thread that publishes in torch's key-value store what the rank does: the number and
name of the operation that it waits in or has last finished. A rank that waits for another one reads
what the others do. One that has shown no progress for `SECONDS` is stuck: a message names it and
what the others wait for, and the run ends.
"""

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from headway.base.errors import HeadwayError, HeadwayWarning

SECONDS = 40.0
"""Time without progress after which a rank is stuck, if others have waited as long for it."""

SLOWER = 5.0
"""A rank may need this many times as long as the longest operation so far."""

PERIOD = 1.0
"""Seconds between two looks."""

STORE_SECONDS = 20
"""Time within which the store must answer."""

THE_END = "the end of the run"
"""The last operation of all ranks."""

STUCK = 76
"""Exit code of a process that waited for a stuck one."""


class _State(NamedTuple):
    """What a rank does. number: the number of operations in which it has waited. ticks: seconds of
    waiting, or of a long operation, that the thread has seen: they count as progress, and a stopped
    process has none."""

    operation: str
    number: int = 0
    is_waiting: bool = False
    is_long: bool = False
    ticks: int = 0


class Watch:
    """The watch of one rank; without a store it does nothing.

    store: torch's key-value store of the run. report: prints the message. seconds: see `SECONDS`.
    """

    def __init__(
        self,
        store: Any = None,
        rank: int = 0,
        size: int = 1,
        report: Callable[[HeadwayError], None] = lambda error: None,
        seconds: float = SECONDS,
    ) -> None:
        self.rank, self.size, self.report, self.seconds = rank, size, report, seconds
        self._store = store
        self._state = _State("the start of the process")
        self._since, self._longest = time.monotonic(), 0.0
        self._ending = threading.Event()
        if store is not None:
            store.set(_key(rank), json.dumps(self._state))
            threading.Thread(target=self._look, name="watch", daemon=True).start()

    def await_start(self) -> None:
        """Return when all ranks have started; a HeadwayWarning names those that have not, again and
        again. The first import of torch may take minutes, so that the run does not end."""
        everyone, begun, named = set(range(self.size)), time.monotonic(), 0
        while absent := {rank for rank in everyone if not self._store.check([_key(rank)])}:
            time.sleep(PERIOD / 5)
            waited = time.monotonic() - begun
            if waited // self.seconds > named and self.rank == min(everyone - absent):
                named = int(waited // self.seconds)
                numbers = ", ".join(map(str, sorted(absent)))
                what = f"of {self.size} processes, these have not started after {waited:.0f} s"
                warnings.warn(f"{what}: {numbers}", HeadwayWarning, stacklevel=2)

    def wait(self, operation: str) -> bool:
        """Record that this rank waits for the others in an operation.

        Returns whether it did so before: an operation may be a part of a longer one.
        """
        was_waiting = self._state.is_waiting
        if self._store is not None:
            self._longest = max(self._longest, time.monotonic() - self._since)
            self._since = time.monotonic()
            number = self._state.number + 1
            self._state = self._state._replace(operation=operation, number=number, is_waiting=True)
        return was_waiting

    def arrive(self, was_waiting: bool) -> None:
        """Record that the operation is done. was_waiting: the result of `wait`."""
        if self._store is not None:
            self._state = self._state._replace(is_waiting=was_waiting)
            self._since = time.monotonic()

    @contextmanager
    def long(self, operation: str) -> Iterator[None]:
        """The block may take any time, as the preparation of data or a checkpoint does."""
        if self._store is None:
            yield
            return
        before = self._state.operation
        self._state = self._state._replace(operation=operation, is_long=True)
        try:
            yield
        finally:
            self._state = self._state._replace(operation=before, is_long=False)
            self._since = time.monotonic()

    def is_first_to_fail(self) -> bool:
        """Return whether no other rank has called this function: only one prints its error."""
        if self._store is None:
            return True
        try:
            return int(self._store.add("headway/failed", 1)) == 1
        except RuntimeError:  # the store has ended with its process, which has its own message
            return False

    def end(self) -> None:
        """End the thread."""
        self._ending.set()

    def _look(self) -> None:
        """Publish what this rank does, and look at the others while it waits."""
        try:
            store = self._store.clone()
            store.set_timeout(timedelta(seconds=STORE_SECONDS))
            others: dict[int, tuple[_State, float]] = {}
            ticks, awake, looked = 0, 0.0, time.monotonic()
            while not self._ending.wait(PERIOD):
                now, own = time.monotonic(), self._state
                # on a machine without a free CPU, this thread waits as long as the others do
                awake, looked = awake + min(now - looked, 2 * PERIOD), now
                ticks += own.is_waiting or own.is_long
                store.set(_key(self.rank), json.dumps(own._replace(ticks=ticks)))
                if not own.is_waiting or now - self._since < self.seconds / 4:
                    others = {}
                    continue
                for rank in set(range(self.size)) - {self.rank}:
                    state = _State(*json.loads(store.get(_key(rank))))
                    before = others.get(rank)
                    if before is None or state != before[0]:
                        others[rank] = state, awake
                    self._check(own, rank, state, awake - others[rank][1])
        except RuntimeError:
            # at the end of a run, process 0 may be gone with the store
            if not self._ending.is_set() and self._state.operation != THE_END:
                self._fail("the process that holds the store of the run, or its machine, is gone")

    def _check(self, own: _State, rank: int, state: _State, unchanged: float) -> None:
        """End this process if another one is stuck, or waits in another operation."""
        if unchanged > max(0.75 * self.seconds, SLOWER * self._longest):
            self._fail(
                f"process {rank} of {self.size} has shown no progress for "
                f"{unchanged + self.seconds / 4:.0f} s; its last operation was: {state.operation}"
            )
        if state.is_waiting and state.number == own.number and state.operation != own.operation:
            self._fail(f"process {rank} of {self.size} waits for: {state.operation}")

    def _fail(self, what: str) -> None:
        """Report what is wrong, unless another rank has, and end this process."""
        if self.is_first_to_fail():
            error = HeadwayError(
                f"{what}; process {self.rank} waits for: {self._state.operation}",
                hint="inspect that process and its machine; the same command resumes the run from "
                "its last checkpoint",
            )
            self.report(error)
        os._exit(STUCK)


def _key(rank: int) -> str:
    return f"headway/rank/{rank}"


NO_WATCH = Watch()
