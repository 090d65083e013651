"""Padding: sequences of different lengths as one matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.base.shapes import Bool, Int, Tensor

IGNORED = -1
"""The target of a position at which nothing is predicted."""


def padded(
    sequences: Sequence[Sequence[int]], pad: int
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Return sequences as one matrix, padded on the right, and a mask that is True at tokens.

    Sequences may be empty.
    """
    longest = max(map(len, sequences), default=0)
    ids = [[*sequence, *[pad] * (longest - len(sequence))] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
    matrix = torch.tensor(ids, dtype=torch.long).view(len(sequences), longest)
    return matrix, torch.arange(longest) < lengths[:, None]
