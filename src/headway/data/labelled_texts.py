"""Texts with a class or a number each, as padded matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.shapes import Float, Int, Tensor

Targets = Sequence[int] | Sequence[float]
"""What texts are: classes, or numbers."""


@dataclass(frozen=True)
class LabelledBatch(FramedBatch):
    """Framed texts and what they are: classes, or numbers. indices: where in the data they
    stand."""

    examples: ClassVar[str] = "texts"  # what `indices` count, for messages
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

    @property
    def lengths(self) -> list[int]:
        """Tokens of each."""
        return [len(row) for row in self.rows]

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
