"""What an encoder reads, as a batch: texts between marks, alone or in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.data.batches import padded
from headway.shapes import Bool, Int, Tensor


@dataclass(frozen=True)
class FramedBatch:
    """Framed texts (`Marks.frame`), one a row.

    keys: True = real; the real ones first. types: 1 for tokens of a second text, None where there
    is none.
    """

    tokens: Int[Tensor, "B T"]
    keys: Bool[Tensor, "B T"]
    types: Int[Tensor, "B T"] | None

    def to(self, device: str) -> FramedBatch:
        """The same on another device."""
        types = None if self.types is None else self.types.to(device)
        return FramedBatch(self.tokens.to(device), self.keys.to(device), types)


def collate_framed(
    rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None, pad: int
) -> FramedBatch:
    """Rows of any lengths as one batch."""
    tokens, keys = padded(rows, pad)
    paired = types is not None and any(map(any, types))
    return FramedBatch(tokens, keys, padded(types, 0)[0] if types is not None and paired else None)


def shortest_first(rows: Sequence[Sequence[object]], size: int) -> Iterator[list[int]]:
    """The numbers of all rows, `size` at a time, by length: little padding."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
