"""Rows of any lengths as an endless stream of batches that are padded little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from headway.data.epochs import endless

B = TypeVar("B")


class ByLength(Generic[B]):
    """Batches of `rows` rows each; the stream can be entered anywhere.

    lengths: of every row. batch: makes one of rows' numbers. Each epoch has every row once. It is
    shuffled, sorted by length inside pools of `POOL` batches, and the batches are shuffled; all
    follows from (seed, epoch) alone.
    """

    POOL = 20

    def __init__(
        self, lengths: Sequence[int], batch: Callable[[list[int]], B], rows: int, seed: int
    ) -> None:
        self.batch, self.rows, self.seed = batch, rows, seed
        self._lengths = np.array(lengths)

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self._lengths) // self.rows)

    def epoch(self, number: int) -> list[list[int]]:
        """Which rows are in each batch of an epoch."""
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(len(self._lengths))
        pool = self.rows * self.POOL
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        ranked = np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in pools])
        starts = random.permutation(range(0, len(ranked), self.rows)).tolist()
        return [ranked[start : start + self.rows].tolist() for start in starts]

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, B]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return endless(self.epoch, lambda rows, _: self.batch(rows), epoch, position)
