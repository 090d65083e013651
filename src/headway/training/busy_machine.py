"""A run that goes on beside programs that were started after it.

The import of Headway decides how long idle threads wait (`base.waiting`). A run that begins on a
quiet machine has threads that wait long, so that another program makes its steps up to 20 times as
long. So the run looks at the machine again and again, and changes the wait.
"""

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headway.base.devices import Machine
from headway.base.waiting import BriefWait, is_settled, others_running
from headway.training.state import StepReport, TrainingState

SECONDS = 10.0
"""Time of training between two looks at the machine."""

STEPS = 5
"""Minimum number of steps whose median is compared."""

SLOWER = 2.0
"""Steps that take this many times as long, for each target, as the fastest earlier ones are worth a
note on a busy machine. Batches of other lengths vary by less."""

QUIET_SECONDS = 600.0
"""Minimum time between two notes."""


@dataclass
class BusyMachine:
    """Observer that lets idle threads sleep soon while other programs need the CPUs.

    When the machine is quiet again, they wait as before. A note says if other programs make the
    steps much slower: the median of the steps since the last comparison is compared with the
    smallest one so far. Evaluations and checkpoints are no part of a step.

    threads: the number of threads that compute. others: counts the threads of other programs that
    run. clock: the time in seconds.
    """

    threads: int
    wait: BriefWait = field(default_factory=BriefWait)
    others: Callable[[], int] = others_running
    clock: Callable[[], float] = time.monotonic
    _window: list[float] = field(default_factory=list)
    _seconds: float = 0.0
    _usual: float = math.inf
    _noted: float = -math.inf

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """Look at the machine if it is time, and compare the steps if there are enough."""
        self._window.append(report.seconds / max(1, report.targets))
        self._seconds += report.seconds
        if self._seconds < SECONDS:
            return
        self._seconds, others = 0.0, self.others()
        is_busy = others + self.threads > (os.cpu_count() or 1)
        if is_busy:
            self.wait.begin(self.threads)
        else:
            self.wait.end()
        if len(self._window) < STEPS:
            return
        now = statistics.median(self._window)
        self._window, self._usual = [], min(self._usual, now)
        is_late = self.clock() >= self._noted + QUIET_SECONDS
        if is_busy and is_late and now >= SLOWER * self._usual:
            self._noted = self.clock()
            run.emit("note", text=self._described(others, now / self._usual))

    def _described(self, others: int, slower: float) -> str:
        """Describe the machine, and what is done about it or could be."""
        programs = "thread runs" if others == 1 else "threads run"
        done = (
            "idle threads of this run sleep soon meanwhile, which changes no result"
            if self.wait.is_on
            else "end those, or this run by Ctrl-C: the same command continues it exactly"
        )
        return (
            f"steps take {slower:.1f} times as long as before: {others} {programs} in other "
            f"programs; {done}"
        )


@contextmanager
def beside_others(machine: Machine) -> Iterator[list[BusyMachine]]:
    """The observer of a run on several CPU threads, unless how long they wait is settled.

    One thread waits for none, and several processes of a run are no other programs. The wait is as
    before after the block.
    """
    is_alone = machine.ranks.is_alone and machine.device == "cpu"
    if not is_alone or machine.threads == 1 or is_settled():
        yield []
        return
    observer = BusyMachine(machine.threads)
    try:
        yield [observer]
    finally:
        observer.wait.end()
