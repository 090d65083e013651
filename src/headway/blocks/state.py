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

from headway.attention import KeyValueCache, KeyValues, Mask, Past
from headway.base.shapes import Bool, Tensor
from headway.base.transfers import upload


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

    def join(self, other: Memory) -> None:
        """Append the sequences of another memory; short sources are padded.

        Each sequence gets a copy of its keys and values.
        """
        length = max(part.layers[0].k.shape[2] for part in (self, other))
        mine, theirs = self._keys()[self.rows], other._keys()[other.rows]
        self.keys = torch.cat((_pad(mine, length, 1), _pad(theirs, length, 1)))
        self.layers = [
            KeyValues(
                *(
                    torch.cat((_pad(a[self.rows], length, 2), _pad(b[other.rows], length, 2)))
                    for a, b in zip(old, new, strict=True)
                )
            )
            for old, new in zip(self.layers, other.layers, strict=True)
        ]
        self.rows = list(range(len(self.rows) + len(other.rows)))

    def _keys(self) -> Bool[Tensor, "M S"]:
        """Return `keys`, all True if nothing is padded."""
        k = self.layers[0].k
        every = k.new_ones(k.shape[0], k.shape[2], dtype=torch.bool)
        return every if self.keys is None else self.keys


def _pad(x: Tensor, length: int, axis: int) -> Tensor:
    """Append zeros along an axis until it has `length` entries."""
    shape = list(x.shape)
    shape[axis] = length - x.shape[axis]
    return torch.cat((x, x.new_zeros(shape)), dim=axis)


@dataclass
class DecoderState:
    """Decode state of a Transformer decoder: keys and values of its tokens and of the source.

    memory: None in a language model, which has no source.
    """

    cache: KeyValueCache
    memory: Memory | None

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence, including a prompt."""
        return self.cache.lengths

    @property
    def past(self) -> Past:
        """The number of tokens of each sequence before the next step, as the cache has it."""
        return self.cache.past

    def reorder(self, rows: Sequence[int]) -> DecoderState:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        self.cache.reorder(rows)
        if self.memory is not None:
            self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderState:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        self.cache.rewind(lengths)
        return self

    def join(self, other: DecoderState) -> DecoderState:
        """Append the sequences of another state of the model, which is not used afterwards."""
        self.cache.join(other.cache)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)
        return self
