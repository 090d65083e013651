"""What lives through decoding: passed to `step` and returned by it, never kept on a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.attention import KeyValueCache, KeyValues, Mask
from headway.shapes import Bool, Tensor


@dataclass
class Memory:
    """The source's keys and values for each layer, one row a sentence, shared by its beams.

    `rows[n]` is the sentence of decoder row n. Rows of one sentence stand together, equally many
    for each sentence; `arrange` keeps it so.
    """

    layers: list[KeyValues]
    keys: Bool[Tensor, "M S"] | None
    rows: list[int]

    @property
    def mask(self) -> Mask:
        return Mask(keys=self.keys)

    def arrange(self, rows: Sequence[int]) -> None:
        """Decoder row i becomes old row rows[i]; unused sentences are let go.

        The keys and values move only when the set of sentences changes. When the rows of a
        sentence are no longer together, or not equally many, each row gets its own copy.
        """
        sentences = [self.rows[row] for row in rows]
        runs = [s for i, s in enumerate(sentences) if i == 0 or s != sentences[i - 1]]
        share = len(sentences) // len(runs) if runs else 1
        if sentences != [s for s in runs for _ in range(share)]:
            runs, share = sentences, 1
        if runs != list(range(self.layers[0][0].shape[0])):
            index = torch.tensor(runs, dtype=torch.long, device=self.layers[0][0].device)
            self.layers = [
                KeyValues(k.index_select(0, index), v.index_select(0, index))
                for k, v in self.layers
            ]
            self.keys = None if self.keys is None else self.keys.index_select(0, index)
        self.rows = [place for place in range(len(runs)) for _ in range(share)]

    @staticmethod
    def join(parts: Sequence[Memory]) -> Memory:
        """One memory for the rows of several, each row with its own copy; short ones padded."""
        length = max(part.layers[0][0].shape[2] for part in parts)
        layers, keys = [], []
        for part in parts:
            k = part.layers[0][0]
            real = k.new_ones(k.shape[0], k.shape[2], dtype=torch.bool)
            real = real if part.keys is None else part.keys
            keys.append(_pad(real[part.rows], length, 1))
        for per_layer in zip(*(part.layers for part in parts), strict=True):
            stacked = [
                torch.cat(
                    [
                        _pad(pair[i][part.rows], length, 2)
                        for pair, part in zip(per_layer, parts, strict=True)
                    ]
                )
                for i in (0, 1)
            ]
            layers.append(KeyValues(*stacked))
        return Memory(layers, torch.cat(keys), list(range(sum(len(p.rows) for p in parts))))


def _pad(x: Tensor, length: int, axis: int) -> Tensor:
    missing = list(x.shape)
    missing[axis] = length - x.shape[axis]
    return torch.cat((x, x.new_zeros(missing)), dim=axis)


@dataclass
class DecoderState:
    """Everything that lives through decoding: passed to `step` and returned by it."""

    caches: list[KeyValueCache]
    memory: Memory

    @property
    def lengths(self) -> list[int]:
        """Tokens decoded so far in each row."""
        return self.caches[0].lengths

    def reorder(self, rows: Sequence[int]) -> DecoderState:
        """Row i becomes old row rows[i]; rows may repeat and be dropped."""
        for cache in self.caches:
            cache.reorder(rows)
        self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderState:
        """Take tokens back: row n keeps its first lengths[n]."""
        for cache in self.caches:
            cache.rewind(lengths)
        return self

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        """The rows of several states of one model, in order, in one state."""
        layers = zip(*(state.caches for state in states), strict=True)
        caches = [type(per_layer[0]).join(per_layer) for per_layer in layers]
        return DecoderState(caches, Memory.join([state.memory for state in states]))
