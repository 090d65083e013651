"""Packed documents taken apart, so that each is a sequence of its own: n L^2 instead of (n L)^2."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch

from headway.attention.documents import Documents
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload


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


_UNPACKED: MutableMapping[Documents, Unpacked] = WeakKeyDictionary()
"""Computed once for a batch, used by every layer."""


def unpacked(documents: Documents) -> Unpacked:
    """Return the documents in groups whose lengths have the same power of two above them."""
    if documents not in _UNPACKED:
        _UNPACKED[documents] = _grouped(documents)
    return _UNPACKED[documents]


def _grouped(documents: Documents) -> Unpacked:
    lengths, device = documents.lengths, documents.numbers.device
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
        order[tokens[real]] = num_grouped + torch.arange(tokens.numel()).view(tokens.shape)[real]
        num_grouped += tokens.numel()
        groups.append(Group(upload(tokens, device), upload(count, device), int(count.sum())))
    rows, length = documents.numbers.shape
    return Unpacked((rows, length), groups, upload(order, device))
