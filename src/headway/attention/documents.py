"""Rows that hold several documents, none of which may see another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Group:
    """Documents of like length. tokens: where each one's tokens stand in the flattened batch.

    Places behind a shorter document's end repeat its first token; what is computed there is
    dropped. lengths: of each document.
    """

    tokens: Int[Tensor, "N L"]
    lengths: Int[Tensor, " N"]


class Documents:
    """Where the documents of a batch of packed rows lie.

    lengths[b]: of the documents of row b, in order, together T. Attention takes the rows apart
    (`apart`), so that each document is a row of its own: nothing leaks whatever the kernel, and n
    documents of length L cost n L^2 instead of (n L)^2. Documents of like length are padded
    together, by less than half.
    """

    def __init__(
        self, lengths: Sequence[Sequence[int]], device: torch.device | str = "cpu"
    ) -> None:
        totals = {sum(row) for row in lengths}
        if len(totals) != 1 or any(length < 1 for row in lengths for length in row):
            raise ValueError("every row must have the same length, and no document may be empty")
        self.num_rows, self.num_tokens = len(lengths), totals.pop()
        flat = torch.tensor([length for row in lengths for length in row])
        starts = flat.cumsum(0) - flat
        within = torch.arange(int(flat.sum())) - starts.repeat_interleave(flat)
        number = torch.arange(len(flat)).repeat_interleave(flat)
        shape = (self.num_rows, self.num_tokens)
        self.places: Int[Tensor, "B T"] = within.view(shape).to(device)
        self.numbers: Int[Tensor, "B T"] = number.view(shape).to(device)
        self.longest = int(flat.max())
        self.groups, self._back = _grouped(starts, flat, device)

    def apart(self, x: Float[Tensor, "B H T K"]) -> list[Float[Tensor, "N H L K"]]:
        """The documents of each group."""
        num_heads, width = x.shape[1], x.shape[3]
        flat = x.transpose(1, 2).reshape(-1, num_heads * width)  # B H T K -> BT HK
        return [
            flat.index_select(0, group.tokens.flatten())
            .view(*group.tokens.shape, num_heads, width)
            .transpose(1, 2)
            for group in self.groups
        ]

    def together(self, parts: Sequence[Float[Tensor, "_ H _ K"]]) -> Float[Tensor, "B H T K"]:
        """Back to the rows they came from."""
        num_heads, width = parts[0].shape[1], parts[0].shape[3]
        flat = torch.cat([part.transpose(1, 2).reshape(-1, num_heads * width) for part in parts])
        rows = flat.index_select(0, self._back)
        return rows.view(self.num_rows, self.num_tokens, num_heads, width).transpose(1, 2)


def _grouped(
    starts: Int[Tensor, " N"], lengths: Int[Tensor, " N"], device: torch.device | str
) -> tuple[list[Group], Int[Tensor, " BT"]]:
    """Groups by the power of two that a length does not exceed, and where each token went."""
    powers = (lengths - 1).clamp(min=0).float().log2().floor().int() + (lengths > 1).int()
    back = torch.empty(int(lengths.sum()), dtype=torch.long)
    groups, taken = [], 0
    for power in sorted(set(powers.tolist())):
        mine = powers == power
        first, count = starts[mine, None], lengths[mine]
        steps = torch.arange(int(count.max()))
        real = steps < count[:, None]  # N L
        tokens = first + steps * real
        back[tokens[real]] = taken + torch.arange(tokens.numel()).view(tokens.shape)[real]
        taken += tokens.numel()
        groups.append(Group(tokens.to(device), count.to(device)))
    return groups, back.to(device)
