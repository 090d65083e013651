"""Decode state: (logits_t, state_t) = step(y_(t-1), state_(t-1)), passed in and returned.

Between two steps a decoder needs the keys and values of earlier target tokens and of the source.
They are in a state object, never on a module, so that a search can reorder them: beam search makes
the state of a surviving beam the state of its children. The beams of a sentence share its keys.

>>> import torch
>>> from headway.attention import KeyValues
>>> from headway.blocks import Memory
>>> keys_values = KeyValues(torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4))  # M H S K
>>> memory = Memory([keys_values], keys=None, rows=[0, 1])  # two sentences of three words
>>> memory.arrange([0, 0, 0, 1, 1, 1])  # three beams for each sentence
>>> memory.rows, len(memory.layers[0].k)  # the keys of the two sentences are not copied
([0, 0, 0, 1, 1, 1], 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.attention import KeyValueCache, KeyValues, Mask
from headway.machine import upload
from headway.shapes import Bool, Tensor


@dataclass
class Memory:
    """Keys and values of M source sentences for each layer, shared by the beams of a sentence.

    keys: True where a source position is a real token; None if nothing is padded. rows: the
    sentence of each of the N decoded sequences. The sequences of a sentence are consecutive, and
    every sentence has the same number of them; `arrange` maintains this.
    """

    layers: list[KeyValues]
    keys: Bool[Tensor, "M S"] | None
    rows: list[int]

    @property
    def mask(self) -> Mask:
        """The mask of cross-attention, which hides padding."""
        return Mask(keys=self.keys)

    def arrange(self, rows: Sequence[int]) -> None:
        """Make sequence i the former sequence rows[i]; unused sentences are dropped.

        Keys and values are copied only if the set of sentences changes. If the sequences of a
        sentence are no longer consecutive, or their numbers differ, each sequence gets a copy.
        """
        sentences = [self.rows[row] for row in rows]
        runs = [s for i, s in enumerate(sentences) if i == 0 or s != sentences[i - 1]]
        share = len(sentences) // len(runs) if runs else 1
        if sentences != [s for s in runs for _ in range(share)]:
            runs, share = sentences, 1
        if runs != list(range(self.layers[0][0].shape[0])):
            index = upload(torch.tensor(runs, dtype=torch.long), self.layers[0].k.device)
            self.layers = [
                KeyValues(k.index_select(0, index), v.index_select(0, index))
                for k, v in self.layers
            ]
            self.keys = None if self.keys is None else self.keys.index_select(0, index)
        self.rows = [sentence for sentence in range(len(runs)) for _ in range(share)]

    @staticmethod
    def join(parts: Sequence[Memory]) -> Memory:
        """Return one memory with the sequences of several, in order.

        Each sequence gets a copy of its keys and values, and short sources are padded.
        """
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
    """Append zeros along an axis until it has `length` entries."""
    shape = list(x.shape)
    shape[axis] = length - x.shape[axis]
    return torch.cat((x, x.new_zeros(shape)), dim=axis)


@dataclass
class DecoderState:
    """Decode state of a Transformer decoder: caches of the target, memory of the source."""

    caches: list[KeyValueCache]
    memory: Memory

    @property
    def lengths(self) -> list[int]:
        """The number of tokens decoded so far in each sequence."""
        return self.caches[0].lengths

    def reorder(self, rows: Sequence[int]) -> DecoderState:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        for cache in self.caches:
            cache.reorder(rows)
        self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderState:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        for cache in self.caches:
            cache.rewind(lengths)
        return self

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        """Return one state with the sequences of several states of one model, in order."""
        layers = zip(*(state.caches for state in states), strict=True)
        caches = [type(per_layer[0]).join(per_layer) for per_layer in layers]
        return DecoderState(caches, Memory.join([state.memory for state in states]))
