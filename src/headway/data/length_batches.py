"""Streams sequences as batches of similar length, which need little padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from headway.data.epochs import endless

B = TypeVar("B")


class LengthBatches(Generic[B]):
    """An endless stream of batches of `batch_size` sequences that can start at any batch of any
    epoch.

    lengths: length of each sequence. batch: makes a batch from indices of sequences. Each epoch has
    each sequence once: all are shuffled, sorted by length in pools of `POOL` batches, and the
    batches are shuffled. The order depends only on (seed, epoch).
    """

    POOL = 20

    def __init__(
        self, lengths: Sequence[int], batch: Callable[[list[int]], B], batch_size: int, seed: int
    ) -> None:
        self.batch, self.batch_size, self.seed = batch, batch_size, seed
        self._lengths = np.array(lengths)

    @property
    def examples_per_epoch(self) -> int:
        return len(self._lengths)

    @property
    def batches_per_epoch(self) -> int:
        return -(-self.examples_per_epoch // self.batch_size)

    def epoch(self, number: int) -> list[list[int]]:
        """Return the indices of the sequences in each batch of an epoch."""
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(len(self._lengths))
        pool = self.batch_size * self.POOL
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        ranked = np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in pools])
        starts = random.permutation(range(0, len(ranked), self.batch_size)).tolist()
        return [ranked[start : start + self.batch_size].tolist() for start in starts]

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, B]]:
        """Yield (next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return endless(self.epoch, lambda indices, _: self.batch(indices), epoch, position)
