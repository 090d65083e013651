"""Pairs of similar texts, as an encoder reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.shapes import Bool, Float, Int, Tensor

Ids = Sequence[int]


@dataclass(frozen=True)
class SimilarBatch:
    """Pairs of texts: row i of `first` belongs to row i of `second`.

    shared: True where two different pairs have a text in common. scores: how alike the two are, 0
    to 1; None where all are. indices: where in the data the pairs stand.
    """

    examples: ClassVar[str] = "text pairs"  # what `indices` count, for messages
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

    @property
    def lengths(self) -> list[int]:
        """Tokens of both texts of each."""
        return [len(a) + len(b) for a, b in zip(self.first, self.second, strict=True)]

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
