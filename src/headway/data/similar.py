"""Pairs of similar texts, as an encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.data.framed import FramedBatch, collate_framed
from headway.shapes import Bool, Float, Int, Tensor

Ids = Sequence[int]


@dataclass(frozen=True)
class SimilarBatch:
    """Pairs of texts: row i of `first` belongs to row i of `second`.

    shared: True where two different pairs have a text in common. scores: how alike the two are, 0
    to 1; None where all are. indices: where in the data the pairs stand.
    """

    first: FramedBatch
    second: FramedBatch
    shared: Bool[Tensor, "B B"]
    scores: Float[Tensor, " B"] | None
    indices: tuple[int, ...]

    def to(self, device: str) -> SimilarBatch:
        """The same on another device."""
        scores = None if self.scores is None else self.scores.to(device)
        sides = self.first.to(device), self.second.to(device)
        return SimilarBatch(*sides, self.shared.to(device), scores, self.indices)


@dataclass(frozen=True)
class SimilarPairs:
    """first, second: the framed ids of each pair's texts. scores: one a pair, or None."""

    first: Sequence[Ids]
    second: Sequence[Ids]
    scores: Sequence[float] | None = None

    def __len__(self) -> int:
        return len(self.first)

    def batch(self, indices: Sequence[int], pad: int) -> SimilarBatch:
        """The pairs that stand there."""
        first, second = ([side[i] for i in indices] for side in (self.first, self.second))
        return SimilarBatch(
            collate_framed(first, None, pad),
            collate_framed(second, None, pad),
            share_texts(first, second),
            None if self.scores is None else torch.tensor([self.scores[i] for i in indices]),
            tuple(indices),
        )


def share_texts(first: Sequence[Ids], second: Sequence[Ids]) -> Bool[Tensor, "B B"]:
    """True where pairs i and j, i not j, have a text in common, on whichever sides it stands."""
    numbers: dict[tuple[int, ...], int] = {}
    a, b = (_numbered(side, numbers) for side in (first, second))
    found = a[:, None] == a
    for one, other in ((b, b), (a, b), (b, a)):
        found = found | (one[:, None] == other)
    return found.fill_diagonal_(False)


def _numbered(side: Sequence[Ids], numbers: dict[tuple[int, ...], int]) -> Int[Tensor, " B"]:
    """The same number for the same text."""
    return torch.tensor(
        [numbers.setdefault(tuple(row), len(numbers)) for row in side], dtype=torch.long
    )


class SimilarRows:
    """Pairs as an endless stream of batches that can be entered anywhere.

    Each epoch has every pair once. It is shuffled, sorted by length inside pools of `POOL` batches,
    so that little is padded, and the batches are shuffled; all follows from (seed, epoch) alone.
    """

    POOL = 20

    def __init__(
        self, pairs: SimilarPairs, rows: int, pad: int, seed: int, device: str = "cpu"
    ) -> None:
        self.pairs, self.rows, self.pad, self.seed, self.device = pairs, rows, pad, seed, device
        both = zip(pairs.first, pairs.second, strict=True)
        self._lengths = np.array([len(a) + len(b) for a, b in both])

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self.pairs) // self.rows)

    def epoch(self, number: int) -> list[list[int]]:
        """Which pairs are in each batch of an epoch."""
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(len(self._lengths))
        pool = self.rows * self.POOL
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        ranked = np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in pools])
        starts = random.permutation(range(0, len(ranked), self.rows)).tolist()
        return [ranked[start : start + self.rows].tolist() for start in starts]

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, SimilarBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        while True:
            order = self.epoch(epoch)
            while position < len(order):
                batch = self.pairs.batch(order[position], self.pad)
                position += 1
                is_last = position == len(order)
                following = (epoch + 1, 0) if is_last else (epoch, position)
                yield (*following, batch.to(self.device))
            epoch, position = epoch + 1, 0
