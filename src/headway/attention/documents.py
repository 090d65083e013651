"""Packed sequences: several documents in one row, number n(t) of the document at each position.

Training on short documents wastes time on padding. Packing puts them end to end into rows of one
length; the mask then allows query t to attend to key s only if n(t) = n(s), so that nothing leaks
from one document into the next.

>>> from headway.attention import Documents, Mask
>>> packed = Documents([[2, 1]])  # one row: a document of two words, then one of one word
>>> packed.positions
tensor([[0, 1, 0]])
>>> Mask(causal=True, documents=packed).dense(3, 3)[0, 0].int()
tensor([[1, 0, 0],
        [1, 1, 0],
        [0, 0, 1]], dtype=torch.int32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload


class Documents:
    """Which document each position of a batch of packed sequences belongs to.

    lengths: for each sequence the lengths of its documents in order; their sum is T, the same for
    all sequences. ValueError otherwise, and for an empty document.

    positions: position of each token within its document. numbers: number of its document, unique
    in the batch. longest: length of the longest document.
    """

    def __init__(
        self, lengths: Sequence[Sequence[int]], device: torch.device | str = "cpu"
    ) -> None:
        totals = {sum(row) for row in lengths}
        if len(totals) != 1 or any(length < 1 for row in lengths for length in row):
            raise ValueError("every row must have the same length, and no document may be empty")
        shape = (len(lengths), totals.pop())
        self.lengths = torch.tensor([length for row in lengths for length in row])
        starts = self.lengths.cumsum(0) - self.lengths
        within = torch.arange(int(self.lengths.sum())) - starts.repeat_interleave(self.lengths)
        number = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        self.positions: Int[Tensor, "B T"] = upload(within.view(shape), device)
        self.numbers: Int[Tensor, "B T"] = upload(number.view(shape), device)
        self.longest = int(self.lengths.max())

    @cached_property
    def apart(self) -> Unpacked:
        """The documents as sequences of their own: attention costs n L^2 instead of (n L)^2.

        Each group has documents whose lengths have the same power of two above them.
        """
        lengths, device = self.lengths, self.numbers.device
        starts = lengths.cumsum(0) - lengths
        powers = (lengths - 1).clamp(min=0).float().log2().floor().int() + (lengths > 1).int()
        order = torch.empty(int(lengths.sum()), dtype=torch.long)
        groups: list[Group] = []
        num_grouped = 0
        for power in sorted(set(powers.tolist())):
            chosen = powers == power
            first, count = starts[chosen, None], lengths[chosen]
            steps = torch.arange(int(count.max()))
            real = steps < count[:, None]  # N L
            tokens = first + steps * real
            places = num_grouped + torch.arange(tokens.numel()).view(tokens.shape)
            order[tokens[real]] = places[real]
            num_grouped += tokens.numel()
            groups.append(Group(upload(tokens, device), upload(count, device), int(count.sum())))
        rows, length = self.numbers.shape
        return Unpacked((rows, length), groups, upload(order, device))


@dataclass(frozen=True)
class Group:
    """Documents of similar length as one batch.

    tokens: index of each token in the flattened batch; positions after the end of a shorter
    document repeat its first token, and their results are dropped. lengths: of each document.
    num_tokens: their sum.
    """

    tokens: Int[Tensor, "N L"]
    lengths: Int[Tensor, " N"]
    num_tokens: int


@dataclass(frozen=True)
class Unpacked:
    """The documents of a batch of packed sequences, in groups of similar length.

    A document is padded by less than its own length. order: index, in the concatenated groups, of
    each token of the flattened batch.
    """

    shape: tuple[int, int]
    groups: list[Group]
    order: Int[Tensor, " BT"]

    def split(self, x: Float[Tensor, "B H T K"]) -> list[Float[Tensor, "N H L K"]]:
        """Return the documents of each group."""
        num_heads, width = x.shape[1], x.shape[3]
        flat = x.transpose(1, 2).reshape(-1, num_heads * width)  # B H T K -> BT HK
        return [
            flat.index_select(0, group.tokens.flatten())
            .view(*group.tokens.shape, num_heads, width)
            .transpose(1, 2)
            for group in self.groups
        ]

    def join(self, parts: Sequence[Float[Tensor, "_ H _ K"]]) -> Float[Tensor, "B H T K"]:
        """Return the packed sequences that `split` took apart."""
        num_heads, width = parts[0].shape[1], parts[0].shape[3]
        flat = torch.cat([part.transpose(1, 2).reshape(-1, num_heads * width) for part in parts])
        return flat.index_select(0, self.order).view(*self.shape, num_heads, width).transpose(1, 2)
