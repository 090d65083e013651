"""Batches of encoder inputs: texts or text pairs, framed by special tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.base.shapes import Bool, Int, Tensor
from headway.data.padding import padded
from headway.data.stream import Batch


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
