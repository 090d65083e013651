"""Continuous batching of searches: those of several computations take their steps together.

A computation is a search: a generator that yields what the model must compute next, and is sent the
logits. `SharedSteps.step` computes the steps of all in one pass over the weights. So a search may
begin while others are under way, and ends when its own outputs end. A model that takes no steps
yields nothing, and runs from beginning to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.serving.engine.computations import Computation, compute_together


class SequencesOfSearch:
    """The decode state of one search, as far as the search knows it: its rows of the shared state.

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


class RunningSearch:
    """Computations of one group, done together by one search.

    tokens, sequences: those of the step that it waits for. begun: by `time.monotonic`. done:
    whether it has ended.
    """

    def __init__(self, jobs: Sequence[Computation]) -> None:
        self.jobs, self.begun = jobs, time.monotonic()
        self.tokens: Int[Tensor, "N 1"]
        self.sequences: SequencesOfSearch
        self.done = False
        self._search = compute_together(jobs)

    def start(self) -> None:
        """Run until the first step, or to the end."""
        self._advance(lambda: next(self._search))

    def resume(self, answer: Float[Tensor, "N 1 V"] | Exception) -> None:
        """Run until the next step, or to the end. answer: the logits of the step for which it
        waits, or an error, which the search raises."""
        if isinstance(answer, Exception):
            self._advance(lambda: self._search.throw(answer))
        else:
            self._advance(lambda: self._search.send((answer, self.sequences)))

    def _advance(self, run: Callable[[], tuple[Tensor, Any]]) -> None:
        try:
            self.tokens, state = run()
        except StopIteration:
            self.done = True
            return
        is_shared = isinstance(state, SequencesOfSearch)
        self.sequences = state if is_shared else SequencesOfSearch(state)


class SharedSteps:
    """Computes the steps of several searches with one model as one."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: Any = None
        self._first: dict[SequencesOfSearch, int] = {}  # -> its first row of the state

    @torch.inference_mode()
    def step(self, searches: Sequence[RunningSearch]) -> list[Float[Tensor, "N 1 V"]]:
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
        tokens = [search.tokens for search in ordered]
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
