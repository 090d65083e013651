"""Texts with a class each, as padded matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.data.batches import padded
from headway.shapes import Bool, Int, Tensor


@dataclass(frozen=True)
class LabelledBatch:
    """tokens: ids, padding at the right. keys: True at real tokens. indices: where in the data the
    texts stand."""

    tokens: Int[Tensor, "B T"]
    keys: Bool[Tensor, "B T"]
    classes: Int[Tensor, " B"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> LabelledBatch:
        return LabelledBatch(
            self.tokens.to(device), self.keys.to(device), self.classes.to(device), self.indices
        )


def collate_labelled(
    rows: Sequence[Sequence[int]],
    classes: Sequence[int],
    pad: int,
    indices: Sequence[int] = (),
) -> LabelledBatch:
    """Texts of any lengths, none empty, as one batch."""
    if len(rows) != len(classes) or not all(rows):
        raise ValueError("every text needs a class and at least one token")
    return LabelledBatch(*padded(rows, pad), torch.tensor(classes), tuple(indices))


@dataclass(frozen=True)
class LabelledTexts:
    """rows: the ids of each text, none empty. classes: one a text."""

    rows: Sequence[Sequence[int]]
    classes: Sequence[int]

    def batch(self, indices: Sequence[int], pad: int) -> LabelledBatch:
        """The texts that stand there."""
        chosen = [int(i) for i in indices]
        rows, classes = [self.rows[i] for i in chosen], [self.classes[i] for i in chosen]
        return collate_labelled(rows, classes, pad, chosen)


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


def labelled_in_order(
    texts: LabelledTexts, rows: int, pad: int, device: str = "cpu"
) -> Iterator[LabelledBatch]:
    """Every text once, the shortest first."""
    order = sorted(range(len(texts.rows)), key=lambda i: len(texts.rows[i]))
    for start in range(0, len(order), rows):
        yield texts.batch(order[start : start + rows], pad).to(device)
