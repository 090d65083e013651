"""Padding: sequences of different lengths as one matrix, and batches of texts or text pairs
framed by special tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Int, Tensor
from headway.data.stream import Batch

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


@dataclass(frozen=True)
class EncoderBatch(Batch):
    """A batch of framed texts (`SpecialTokens.frame`), one per row.

    keys: True at tokens, False at the padding after them. types: segment ids, 1 for tokens of the
    second text of a pair; None if there are no pairs.
    """

    tokens: Int[Tensor, "B T"]
    keys: Bool[Tensor, "B T"]
    types: Int[Tensor, "B T"] | None


def collate_encoder_batch(
    sequences: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None, pad: int
) -> EncoderBatch:
    """Return sequences of any lengths as one padded batch; pad: id of the padding token."""
    tokens, keys = padded(sequences, pad)
    paired = types is not None and any(map(any, types))
    return EncoderBatch(tokens, keys, padded(types, 0)[0] if types is not None and paired else None)


def shortest_first(sequences: Sequence[Sequence[object]], size: int) -> Iterator[list[int]]:
    """Yield the indices of all sequences in batches of `size`, sorted by length to reduce
    padding."""
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
