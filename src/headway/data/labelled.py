"""Texts with a class or a number each, as padded matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.data.framed import FramedBatch, collate_framed
from headway.shapes import Float, Int, Tensor

Targets = Sequence[int] | Sequence[float]
"""What texts are: classes, or numbers."""


@dataclass(frozen=True)
class LabelledBatch(FramedBatch):
    """Framed texts and what they are: classes, or numbers. indices: where in the data they
    stand."""

    targets: Int[Tensor, " B"] | Float[Tensor, " B"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> LabelledBatch:
        """The same on another device."""
        there = super().to(device)
        targets = self.targets.to(device)
        return LabelledBatch(there.tokens, there.keys, there.types, targets, self.indices)


@dataclass(frozen=True)
class LabelledTexts:
    """rows: the ids of each text, none empty. targets: one a text. types: 1 for tokens of a second
    text, None where there is none."""

    rows: Sequence[Sequence[int]]
    targets: Targets
    types: Sequence[Sequence[int]] | None = None

    def batch(self, indices: Sequence[int], pad: int) -> LabelledBatch:
        """The texts that stand there."""
        chosen = [int(i) for i in indices]
        types = None if self.types is None else [self.types[i] for i in chosen]
        targets = [self.targets[i] for i in chosen]
        return collate_labelled([self.rows[i] for i in chosen], targets, pad, chosen, types)


def collate_labelled(
    rows: Sequence[Sequence[int]],
    targets: Targets,
    pad: int,
    indices: Sequence[int] = (),
    types: Sequence[Sequence[int]] | None = None,
) -> LabelledBatch:
    """Texts of any lengths, none empty, as one batch."""
    if len(rows) != len(targets) or not all(rows):
        raise ValueError("every text needs a label and at least one token")
    framed = collate_framed(rows, types, pad)
    return LabelledBatch(
        framed.tokens, framed.keys, framed.types, torch.tensor(targets), tuple(indices)
    )


class LabelledRows:
    """Texts as an endless stream of batches that can be entered anywhere.

    Each epoch has every text once. It is shuffled, sorted by length inside pools of `POOL` batches,
    so that little is padded, and the batches are shuffled; all follows from (seed, epoch) alone.
    """

    POOL = 20

    def __init__(
        self, texts: LabelledTexts, rows: int, pad: int, seed: int, device: str = "cpu"
    ) -> None:
        self.texts, self.rows, self.pad, self.seed, self.device = texts, rows, pad, seed, device
        self._lengths = np.array([len(row) for row in texts.rows])

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self._lengths) // self.rows)

    def epoch(self, number: int) -> list[list[int]]:
        """Which texts are in each batch of an epoch."""
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(len(self._lengths))
        pool = self.rows * self.POOL
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        ranked = np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in pools])
        starts = random.permutation(range(0, len(ranked), self.rows)).tolist()
        return [ranked[start : start + self.rows].tolist() for start in starts]

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, LabelledBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        while True:
            order = self.epoch(epoch)
            while position < len(order):
                batch = self.texts.batch(order[position], self.pad)
                position += 1
                is_last = position == len(order)
                following = (epoch + 1, 0) if is_last else (epoch, position)
                yield (*following, batch.to(self.device))
            epoch, position = epoch + 1, 0
