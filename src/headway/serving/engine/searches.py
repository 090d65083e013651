"""Computations as members of the continuous batch.

A computation is a search: a generator that yields what the model must compute next, and is sent the
logits. One that takes no steps yields nothing, and runs from beginning to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

from headway.base.shapes import Float, Int, Tensor
from headway.models.contracts import DecodeState, Sequences
from headway.serving.engine.computations import Computation, compute_together


class SequencesOfSearch:
    """The decode state of one search, as far as the search knows it: its rows of the shared state.

    state: its own state, until its rows join the batch; then None. rows: the rows that it still
    decodes, as numbers of the rows that it had at its last step.
    """

    def __init__(self, state: DecodeState) -> None:
        self.state: DecodeState | None = state
        self.rows: list[int] = []

    def reorder(self, rows: Sequence[int]) -> SequencesOfSearch:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        self.rows = [self.rows[row] for row in rows]
        return self


class RunningSearch:
    """Computations of one group, done together by one search.

    tokens, sequences: those of the step that it waits for. rows: its rows of the state of the
    batch. begun: by `time.monotonic`. done: whether it has ended.
    """

    def __init__(self, jobs: Sequence[Computation]) -> None:
        self.jobs, self.begun = jobs, time.monotonic()
        self.tokens: Int[Tensor, "N 1"]
        self.sequences: SequencesOfSearch
        self.rows: list[int] = []
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

    def _advance(self, run: Callable[[], tuple[Tensor, Sequences]]) -> None:
        try:
            self.tokens, state = run()
        except StopIteration:
            self.done = True
            return
        if not isinstance(state, SequencesOfSearch):
            state = SequencesOfSearch(cast("DecodeState", state))
        self.sequences = state
