"""Texts with a class each, as padded matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

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
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    return LabelledBatch(
        torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows]),
        torch.arange(longest) < lengths[:, None],
        torch.tensor(classes),
        tuple(indices),
    )
