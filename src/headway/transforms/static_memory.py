"""Keys and values of source sentences in tensors of fixed size, for recorded steps of a decoder."""

from collections import Counter
from typing import NamedTuple
from weakref import ReferenceType, ref

import torch

from headway.attention import KeyValues, Sharing
from headway.base.shapes import Tensor
from headway.blocks import Memory


class Sources(NamedTuple):
    """Room for source sentences. share: number of sequences that are decoded for each of them;
    length: tokens of a sentence; is_regular: whether each has `share` sequences, in order."""

    sentences: int
    share: int
    length: int
    is_regular: bool

    @property
    def tokens(self) -> int:
        return self.sentences * self.length

    def fit(self, memory: Memory) -> bool:
        """Whether the sentences of a decode state have room."""
        sentences, share, length, is_regular = sources_of(memory)
        fits = share == self.share and is_regular if self.is_regular else share <= self.share
        return fits and sentences <= self.sentences and length <= self.length


def sources_of(memory: Memory) -> Sources:
    """Return the size of the sentences of a decode state."""
    sentences, _, length, _ = memory.layers[0].k.shape
    share = max(Counter(memory.rows).values())
    return Sources(sentences, share, length, memory.sharing.sequences is None)


class StaticMemory:
    """`memory` has the keys and values of sentences, and a mask of the tokens that are there.

    What is computed for a sentence that is not there is not used. rows: number of sequences.
    """

    def __init__(self, like: Memory, size: Sources, rows: int) -> None:
        self._size = size
        self._kept: ReferenceType[Tensor] | None = None
        layers = [KeyValues(_room(k, size), _room(v, size)) for k, v in like.layers]
        device = layers[0].k.device
        self._keys = torch.ones(size.sentences, size.length, dtype=torch.bool, device=device)
        sharing = Sharing()
        if not size.is_regular:
            places = torch.zeros(rows, dtype=torch.long, device=device)
            sharing = Sharing(places.new_zeros(size.sentences * size.share), places)
        self.memory = Memory(layers, self._keys, [], sharing)

    def keep(self, memory: Memory) -> None:
        """Copy the sentences of a decode state, and who attends to them, unless they are the ones
        that are there."""
        if not self._size.is_regular and memory.rows != self.memory.rows:
            self._keep_sharing(memory.rows)
        kept = memory.layers[0].k
        if self._kept is not None and self._kept() is kept:
            return
        sentences, length = kept.shape[0], kept.shape[2]
        for static, layer in zip(self.memory.layers, memory.layers, strict=True):
            for room, x in zip(static, layer, strict=True):
                room[:sentences, :, :length] = x
        self._keys.fill_(False)
        self._keys[:sentences, :length] = True if memory.keys is None else memory.keys
        self._kept = ref(kept)

    def _keep_sharing(self, rows: list[int]) -> None:
        static, size = self.memory.sharing, self._size
        assert static.sequences is not None and static.places is not None
        new = Sharing.of(rows, size.sentences, static.places.device, size.share)
        assert new.sequences is not None and new.places is not None
        static.sequences.copy_(new.sequences)
        static.places[: len(rows)] = new.places
        self.memory.rows = rows


def _room(x: Tensor, size: Sources) -> Tensor:
    return x.new_zeros(size.sentences, x.shape[1], size.length, x.shape[3])
