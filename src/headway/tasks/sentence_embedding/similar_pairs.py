"""Batches of pairs of similar texts, encoded for contrastive training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Float, Int, Tensor
from headway.data.encoder_batches import EncoderBatch, collate_encoder_batch
from headway.data.stream import Batch, Indices

Ids = Sequence[int]


@dataclass(frozen=True)
class SimilarBatch(Batch):
    """Pairs of texts: row i of `first` and row i of `second` are a pair.

    shared: True where two different pairs have a text in common. scores: similarity of each pair,
    from 0 to 1; None if all pairs are similar. indices: indices of the pairs in the data.
    """

    examples = "text pairs"
    first: EncoderBatch
    second: EncoderBatch
    shared: Bool[Tensor, "B B"]
    scores: Float[Tensor, " B"] | None
    indices: tuple[int, ...]


@dataclass(frozen=True)
class SimilarPairs:
    """Encoded pairs. first, second: the framed ids of the texts. scores: one per pair, or None."""

    first: Sequence[Ids]
    second: Sequence[Ids]
    scores: Sequence[float] | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of both texts of each pair."""
        return [len(a) + len(b) for a, b in zip(self.first, self.second, strict=True)]

    def batch(self, indices: Indices, pad: int) -> SimilarBatch:
        """Return the pairs with these indices as a batch."""
        chosen = [int(i) for i in indices]
        first, second = ([side[i] for i in chosen] for side in (self.first, self.second))
        return SimilarBatch(
            collate_encoder_batch(first, None, pad),
            collate_encoder_batch(second, None, pad),
            share_texts(first, second),
            None if self.scores is None else torch.tensor([self.scores[i] for i in chosen]),
            tuple(chosen),
        )


def share_texts(first: Sequence[Ids], second: Sequence[Ids]) -> Bool[Tensor, "B B"]:
    """Return a mask that is True where pairs i and j, i not j, have a text in common on any
    side."""
    numbers: dict[tuple[int, ...], int] = {}
    a, b = (_numbered(side, numbers) for side in (first, second))
    shared = a[:, None] == a
    for left_numbers, right_numbers in ((b, b), (a, b), (b, a)):
        shared = shared | (left_numbers[:, None] == right_numbers)
    return shared.fill_diagonal_(False)


def _numbered(side: Sequence[Ids], numbers: dict[tuple[int, ...], int]) -> Int[Tensor, " B"]:
    """Return a number for each text, equal for equal texts."""
    return torch.tensor(
        [numbers.setdefault(tuple(row), len(numbers)) for row in side], dtype=torch.long
    )
