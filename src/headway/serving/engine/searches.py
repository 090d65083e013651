"""Continuous batching of searches: those of several computations take their steps together.

A computation runs in a thread of its own, but only one thread runs at a time: `Search.resume` lets
it run until its greedy search or its sampling needs the logits of a step, or until it ends. When
all searches wait for a step, `SharedSteps.step` computes the steps of all in one pass over the
weights. So a search may begin while others are under way, and ends when its own outputs end. A beam
search, and a model that takes no steps, runs from beginning to end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.decoding import Step, sharing
from headway.serving.engine.computations import Computation, compute_together
from headway.serving.engine.jobs import Cancelled


class SequencesOfSearch:
    """The decode state of one search, as far as the search sees it: its rows of the shared state.

    state: its own state, until the first step. rows: the rows that it still decodes, as numbers of
    the rows that it had at its last step.
    """

    def __init__(self, state: Any) -> None:
        self.state: Any = state
        self.rows: list[int] = []

    def reorder(self, rows: Sequence[int]) -> SequencesOfSearch:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        self.rows = [self.rows[row] for row in rows]
        return self


class Search:
    """Computations of one group, done together in a thread that stops at each step.

    context: of all its passes through the model. tokens, sequences: those of the step for which it
    waits. begun: by `time.monotonic`. done: whether it has ended.
    """

    def __init__(
        self, model: Any, jobs: Sequence[Computation], context: Callable[[], Any] = nullcontext
    ) -> None:
        self.jobs, self.begun = jobs, time.monotonic()
        self.tokens: Int[Tensor, "N 1"] | None = None
        self.sequences = SequencesOfSearch(None)
        self.done = False
        self.thread = threading.Thread(target=self._run, name="search", daemon=True)
        self._model, self._context = model, context
        self._go, self._stopped = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._stopped.acquire()
        self._answer: Float[Tensor, "N 1 V"] | Exception | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Run until the first step, or to the end."""
        self.thread.start()
        self._wait()

    def resume(self, answer: Float[Tensor, "N 1 V"] | Exception) -> None:
        """Run until the next step, or to the end. answer: the logits of the step for which it
        waits, or an error, which the search raises."""
        self._answer = answer
        self._go.release()
        self._wait()

    def cancel(self, seconds: float) -> None:
        """End a search that waits for a step, and wait for its thread for at most `seconds`.

        A search that has ended is left alone: it would never answer.
        """
        if not self.done:
            self._answer = Cancelled()
            self._go.release()
            self.thread.join(seconds)

    def _wait(self) -> None:
        self._stopped.acquire()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with sharing(self._step_of), self._context():
                compute_together(self.jobs)
        except BaseException as error:
            self._error = error
        finally:
            self.done = True
            self._stopped.release()

    def _step_of(self, model: Any) -> Step:
        step: Step = self._step if model is self._model else model.step
        return step

    def _step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Tensor, SequencesOfSearch]:
        """Wait for the logits after the tokens."""
        is_shared = isinstance(state, SequencesOfSearch)
        self.sequences = state if is_shared else SequencesOfSearch(state)
        self.tokens = tokens
        self._stopped.release()
        self._go.acquire()
        if not isinstance(self._answer, Tensor):
            raise self._answer or AssertionError("resumed without an answer")
        return self._answer, self.sequences


class SharedSteps:
    """Computes the steps of several searches with one model as one."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: Any = None
        self._first: dict[SequencesOfSearch, int] = {}  # -> its first row of the state

    @torch.inference_mode()
    def step(self, searches: Sequence[Search]) -> list[Float[Tensor, "N 1 V"]]:
        """Return the logits of each search, all of which wait for a step."""
        old = [search for search in searches if search.sequences in self._first]
        new = [search for search in searches if search.sequences not in self._first]
        self._keep([search.sequences for search in old])
        for search in new:
            if self._state is None:
                self._state = search.sequences.state
            else:
                self._state = self._state.join(search.sequences.state)
            search.sequences.state = None
        ordered = [*old, *new]
        tokens = [search.tokens for search in ordered if search.tokens is not None]
        logits, self._state = self._model.step(torch.cat(tokens), self._state)
        self._first, first, of_search = {}, 0, {}
        for search, own in zip(ordered, tokens, strict=True):
            of_search[search] = logits[first : first + len(own)]
            self._first[search.sequences] = first
            search.sequences.rows = list(range(len(own)))
            first += len(own)
        return [of_search[search] for search in searches]

    def _keep(self, of_searches: Sequence[SequencesOfSearch]) -> None:
        """Drop all rows but those that these searches still decode."""
        rows = [self._first[own] + row for own in of_searches for row in own.rows]
        if not rows:
            self._state = None
        elif self._state is not None and rows != list(range(len(self._state.lengths))):
            self._state = self._state.reorder(rows)

    def forget(self) -> None:
        """Drop all sequences: there are no searches, or a step failed."""
        self._state, self._first = None, {}


def spread(jobs: Sequence[Computation], free: int) -> list[Sequence[Computation]]:
    """Return the jobs of one group as the jobs of at most `free` searches.

    Jobs that share no steps are done in one go. Others of similar cost come together, since a
    search ends with its longest output.
    """
    if not jobs or not jobs[0].shares:
        return [jobs] if jobs else []
    ordered = sorted(jobs, key=lambda job: job.cost)
    size = -(-len(ordered) // free)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]
