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
from dataclasses import dataclass, field

import torch

from headway.attention import KeyValueCache, KeyValues, Mask, Past, Sharing
from headway.base.shapes import Bool, Tensor
from headway.base.transfers import upload


@dataclass
class Memory:
    """Keys and values of M source sentences for each layer, shared by the beams of a sentence.

    keys: True where a source position is a real token; None if nothing is padded. rows: the
    sentence of each of the N decoded sequences. A new order of the sequences changes `rows` only.
    """

    layers: list[KeyValues]
    keys: Bool[Tensor, "M S"] | None
    rows: list[int]
    sharing: Sharing = field(default_factory=Sharing)

    @property
    def mask(self) -> Mask:
        """The mask of cross-attention, which hides padding."""
        return Mask(keys=self.keys, sharing=self.sharing)

    def arrange(self, rows: Sequence[int]) -> None:
        """Make sequence i the former sequence rows[i]; sentences without a sequence are dropped.

        Keys and values are copied only then.
        """
        ordered = [self.rows[row] for row in rows]
        kept = list(dict.fromkeys(ordered))
        if len(kept) < len(self.layers[0].k):
            index = upload(torch.tensor(kept, dtype=torch.long), self.layers[0].k.device)
            self.layers = [
                KeyValues(k.index_select(0, index), v.index_select(0, index))
                for k, v in self.layers
            ]
            self.keys = None if self.keys is None else self.keys.index_select(0, index)
            number_of = {sentence: number for number, sentence in enumerate(kept)}
            ordered = [number_of[sentence] for sentence in ordered]
        self._share(ordered)

    def join(self, other: Memory) -> None:
        """Append the sentences and sequences of another memory; short sources are padded."""
        keys = [part.keys if part.keys is not None else _every(part) for part in (self, other)]
        length = max(_longest(of_part) for of_part in keys)
        self.keys = torch.cat([_padded(of_part, length, 1) for of_part in keys])
        first = len(self.layers[0].k)
        self.layers = [
            KeyValues(
                torch.cat((_padded(old.k, length, 2), _padded(new.k, length, 2))),
                torch.cat((_padded(old.v, length, 2), _padded(new.v, length, 2))),
            )
            for old, new in zip(self.layers, other.layers, strict=True)
        ]
        self._share([*self.rows, *(first + row for row in other.rows)])

    def _share(self, rows: list[int]) -> None:
        """Let sequence n attend to sentence rows[n]."""
        if rows != self.rows:
            k = self.layers[0].k
            self.rows, self.sharing = rows, Sharing.of(rows, len(k), k.device)


def _every(memory: Memory) -> Bool[Tensor, "M S"]:
    """Return `keys` where nothing is padded."""
    k = memory.layers[0].k
    return k.new_ones(k.shape[0], k.shape[2], dtype=torch.bool)


def _longest(keys: Bool[Tensor, "M S"]) -> int:
    """Return the length of the longest sentence, without padding that all have."""
    return int(keys.any(0).sum())


def _padded(x: Tensor, length: int, axis: int) -> Tensor:
    """Return the first `length` entries along an axis, or append zeros to it until it has them."""
    size = x.shape[axis]
    if size >= length:
        return x.narrow(axis, 0, length)
    shape = list(x.shape)
    shape[axis] = length - size
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
