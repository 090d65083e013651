"""Keys and values of source sentences in tensors of fixed size, for recorded steps of a decoder."""

from __future__ import annotations

from typing import NamedTuple
from weakref import ReferenceType, ref

import torch

from headway.attention import KeyValues
from headway.base.shapes import Tensor
from headway.blocks import Memory


class Sources(NamedTuple):
    """Room for source sentences. share: number of sequences that are decoded for each of them;
    length: tokens of a sentence."""

    sentences: int
    share: int
    length: int

    @property
    def tokens(self) -> int:
        return self.sentences * self.length

    def fit(self, memory: Memory) -> bool:
        """Whether the sentences of a decode state have room."""
        sentences, share, length = sources_of(memory)
        return sentences <= self.sentences and length <= self.length and share == self.share


def sources_of(memory: Memory) -> Sources:
    """Return the size of the sentences of a decode state."""
    keys = memory.layers[0].k
    return Sources(len(keys), len(memory.rows) // len(keys), keys.shape[2])


class StaticMemory:
    """`memory` has the keys and values of sentences, and a mask of the tokens that are there.

    What is computed for a sentence that is not there is not used.
    """

    def __init__(self, like: Memory, size: Sources) -> None:
        self._kept: ReferenceType[Tensor] | None = None
        layers = [KeyValues(*(_room(x, size) for x in layer)) for layer in like.layers]
        device = layers[0].k.device
        self._keys = torch.ones(size.sentences, size.length, dtype=torch.bool, device=device)
        rows = [sentence for sentence in range(size.sentences) for _ in range(size.share)]
        self.memory = Memory(layers, self._keys, rows)

    def keep(self, memory: Memory) -> None:
        """Copy the sentences of a decode state, unless they are the ones that are there."""
        kept = memory.layers[0].k
        if self._kept is not None and self._kept() is kept:
            return
        sentences, _, length = sources_of(memory)
        for static, layer in zip(self.memory.layers, memory.layers, strict=True):
            for room, x in zip(static, layer, strict=True):
                room[:sentences, :, :length] = x
        self._keys.fill_(False)
        self._keys[:sentences, :length] = True if memory.keys is None else memory.keys
        self._kept = ref(kept)


def _room(x: Tensor, size: Sources) -> Tensor:
    return x.new_zeros(size.sentences, x.shape[1], size.length, x.shape[3])
