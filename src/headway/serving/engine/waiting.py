"""The queue of an engine: bounded, first come, first served."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Literal

from headway.serving.engine.computations import Computation
from headway.serving.engine.jobs import Generation, Job

LONGEST_WAIT = 60  # seconds to which a client is sent away at most


class Refused(Exception):
    """The engine does not take a job. retry_after: in seconds, when the client may try again."""

    def __init__(self, why: Literal["full", "draining", "dead"], retry_after: int) -> None:
        super().__init__(why)
        self.why, self.retry_after = why, retry_after


class Waiting:
    """Jobs that the engine has not begun.

    most: maximum number of jobs, and `most_tokens` of their tokens. Every method may be called from
    any thread.
    """

    def __init__(self, most: int, most_tokens: int) -> None:
        self.most, self.most_tokens = most, most_tokens
        self.draining = False
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._tokens = 0
        self._speed = 0.0  # tokens of finished jobs per second, smoothed

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        """Append a job. Raises Refused if the queue is full or the engine is draining."""
        with self._changed:
            if self.draining:
                raise Refused("draining", 1)
            is_full = len(self._jobs) >= self.most
            if is_full or (self._jobs and self._tokens + job.cost > self.most_tokens):
                raise Refused("full", self._expected_wait())
            self._jobs.append(job)
            self._tokens += job.cost
            self._changed.notify()

    def wait(self, seconds: float) -> None:
        """Return as soon as there is a job or `wake` is called, or after so many seconds."""
        with self._changed:
            if not self._jobs:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """End the wait of the engine."""
        with self._changed:
            self._changed.notify()

    def remove_ended(self) -> list[Job]:
        """Remove and return the jobs that were cancelled or whose deadline has passed."""
        with self._changed:
            ended = [job for job in self._jobs if job.ended is not None]
            for job in ended:
                self._remove(job)
            return ended

    def next_generation(self, most_outputs: int) -> Generation | None:
        """Remove and return the first generation, if it has at most `most_outputs` outputs."""
        with self._changed:
            for job in self._jobs:
                if isinstance(job, Generation):
                    if job.config.samples > most_outputs:
                        return None  # it is not overtaken by smaller ones
                    self._remove(job)
                    return job
            return None

    def next_computations(self, budget: int) -> list[Computation]:
        """Remove and return the first computation and those that can be done with it.

        budget: maximum number of tokens together; 0: one computation alone. Later ones may overtake
        others with which they cannot be done.
        """
        with self._changed:
            chosen: list[Computation] = []
            for job in self._computations():
                if chosen and (job.group != chosen[0].group or job.cost > budget):
                    continue
                chosen.append(job)
                budget -= job.cost
            for job in chosen:
                self._remove(job)
            return chosen

    def take_all(self) -> list[Job]:
        """Remove and return all jobs; later ones are refused."""
        with self._changed:
            self.draining = True
            jobs = list(self._jobs)
            self._jobs.clear()
            self._tokens = 0
            return jobs

    def finished(self, tokens: int, seconds: float) -> None:
        """Record the speed of a job that is done, for `Refused.retry_after`."""
        with self._changed:
            speed = tokens / max(seconds, 1e-3)
            self._speed = speed if not self._speed else 0.9 * self._speed + 0.1 * speed

    def _computations(self) -> Iterator[Computation]:
        return (job for job in self._jobs if isinstance(job, Computation))

    def _remove(self, job: Job) -> None:
        self._jobs.remove(job)
        self._tokens -= job.cost

    def _expected_wait(self) -> int:
        oldest = time.monotonic() - self._jobs[0].created if self._jobs else 0.0
        expected = self._tokens / self._speed if self._speed else oldest
        return max(1, min(LONGEST_WAIT, math.ceil(expected)))
