"""Key/value cache: K <- [K; k_new], V <- [V; v_new].

In causal attention the keys and values of earlier tokens do not depend on later ones. A decoder
therefore computes them once, keeps them, and processes only the new token at each step: generating
T tokens costs T steps over at most T keys instead of T full passes.

>>> import torch
>>> from headway.attention import KeyValueCache
>>> cache = KeyValueCache(num_rows=1, num_layers=1)
>>> for word in (1.0, 2.0, 3.0):
...     step = cache.step(1, torch.device("cpu"))  # one new word
...     new = torch.full((1, 1, 1, 2), word)  # N G T K: its key, by heads
...     k, v = cache.layers[0].append(step, new, -new)
...     cache.advance(1)
>>> k[0, 0]  # the keys of all three words
tensor([[1., 1.],
        [2., 2.],
        [3., 3.]])
>>> cache.rewind([1])  # take the last two words back
>>> cache.lengths
[1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from headway.attention.masks import Mask
from headway.attention.relative import Past, positions_after
from headway.attention.step import Step
from headway.base.shapes import Float, Tensor
from headway.base.transfers import upload

SMALLEST = 16
"""The first number of tokens that a cache has room for."""


class KeyValues(NamedTuple):
    """Keys and values of a source, by heads; computed once, used by every query.

    M may be smaller than the number N of query sequences, of which several then share a row, as the
    beams of a sentence do (`Sharing`).
    """

    k: Float[Tensor, "M G S K"]
    v: Float[Tensor, "M G S Kv"]


class LayerCache:
    """Vectors of the tokens of N sequences in one layer.

    stores: for each kind of vector (keys, values) a tensor "R H C K" with room for further rows and
    tokens, whose capacity doubles when it is full; none before the first token. What is behind the
    tokens of a row is left over from earlier ones, and the mask hides it.
    """

    def __init__(self) -> None:
        self.stores: list[Tensor] = []

    def append(self, step: Step, *new: Float[Tensor, "N H T _"]) -> list[Float[Tensor, "N H S _"]]:
        """Append T tokens to each sequence, at the places of the step; return all vectors.

        Each call passes the same kinds of vectors in the same order.
        """
        self.make_room(new, len(new[0]), step.num_keys)
        for store, x in zip(self.stores, new, strict=True):
            if step.start is not None:
                store[: len(x), :, step.start : step.start + x.shape[2]] = x
            else:
                at = x.transpose(1, 2).to(store.dtype)  # N H T K -> N T H K
                store[step.rows, :, step.positions] = at
        # a store without further rows is not sliced by rows, which saves an operation
        return [
            (s if len(s) == len(x) else s[: len(x)])[:, :, : step.num_keys]
            for s, x in zip(self.stores, new, strict=True)
        ]

    def make_room(self, like: Sequence[Float[Tensor, "_ H _ _"]], rows: int, tokens: int) -> None:
        """Have room for this number of rows and tokens. like: vectors of each kind, of any rows."""
        if not self.stores:
            first = max(tokens, SMALLEST)
            self.stores = [x.new_zeros(rows, x.shape[1], first, x.shape[3]) for x in like]
        self.stores = [_grown(store, rows, tokens) for store in self.stores]


def _grown(store: Float[Tensor, "R H C K"], rows: int, tokens: int) -> Tensor:
    """Return `store` with room for rows and tokens; doubling keeps the cost of appending linear."""
    old_rows, heads, old_tokens, width = store.shape
    if old_rows >= rows and old_tokens >= tokens:
        return store
    rows = old_rows if rows <= old_rows else max(rows, 2 * old_rows)
    tokens = old_tokens if tokens <= old_tokens else max(tokens, 2 * old_tokens)
    grown = store.new_zeros(rows, heads, tokens, width)
    grown[:old_rows, :, :old_tokens] = store
    return grown


class KeyValueCache:
    """Vectors of the tokens decoded so far in every layer: N sequences that may differ in length.

    A cache is passed to a decoder and returned by it as part of the decode state, never stored on
    a module. A recurrent network keeps its states in one, instead of keys and values.

    lengths: the number of tokens of each sequence.
    """

    def __init__(self, num_rows: int, num_layers: int) -> None:
        self.lengths = [0] * num_rows
        self._layers = [LayerCache() for _ in range(num_layers)]

    @property
    def layers(self) -> list[LayerCache]:
        """The vectors of each layer."""
        return self._layers

    @property
    def past(self) -> Past:
        """What `positions_after` takes: the lengths now, before further tokens are appended."""
        return list(self.lengths)

    @property
    def uniform(self) -> bool:
        """Whether all sequences have the same length."""
        return len(set(self.lengths)) <= 1

    def step(self, num_tokens: int, device: torch.device) -> Step:
        """Return the step that appends T tokens to each sequence. `advance` follows it."""
        positions = positions_after(self.past, num_tokens, device)
        longest = max(self.lengths, default=0)
        if self.uniform:
            return Step(positions, Mask(causal=True), longest + num_tokens, start=longest)
        rows = torch.arange(len(self.lengths), device=device)[:, None]
        mask = Mask(causal=True, past=positions[:, 0])
        return Step(positions, mask, longest + num_tokens, rows=rows)

    def advance(self, num_tokens: int) -> None:
        """Count T tokens that were appended to each sequence in every layer."""
        self.lengths = [length + num_tokens for length in self.lengths]

    def extend(self, vectors: Sequence[Sequence[Float[Tensor, "N H T _"]]]) -> None:
        """Append T tokens to each sequence in all layers. vectors: by layer and kind."""
        num_tokens, device = vectors[0][0].shape[2], vectors[0][0].device
        step = self.step(num_tokens, device)
        for layer, new in zip(self.layers, vectors, strict=True):
            layer.append(step, *new)
        self.advance(num_tokens)

    def last(self, layer: int = 0) -> list[Float[Tensor, "N H _"]]:
        """Return the vectors of the last token of each sequence, by kind."""
        stores, count = self.layers[layer].stores, len(self.lengths)
        if self.uniform:
            return [store[:count, :, self.lengths[0] - 1] for store in stores]
        rows = torch.arange(count, device=stores[0].device)
        where = upload(torch.tensor(self.lengths), rows.device) - 1
        return [store[rows, :, where] for store in stores]

    def reorder(self, rows: Sequence[int]) -> None:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped.

        Beam search calls it with the parents of the beams that survive.
        """
        self.lengths = [self.lengths[row] for row in rows]
        for layer in self.layers:
            layer.stores = [store[list(rows)] for store in layer.stores]

    def rewind(self, lengths: Sequence[int]) -> None:
        """Take tokens back: sequence n keeps its first lengths[n]. ValueError if it has fewer."""
        check_rewind(self.lengths, lengths)
        self.lengths = list(lengths)

    def join(self, other: KeyValueCache) -> None:
        """Append the sequences of another cache of the model, which is not used afterwards."""
        old, used = len(self.lengths), max(other.lengths, default=0)
        self.lengths = [*self.lengths, *other.lengths]
        for layer, new in zip(self.layers, other.layers, strict=True):
            layer.make_room(layer.stores or new.stores, len(self.lengths), max(self.lengths))
            for store, x in zip(layer.stores, new.stores, strict=bool(new.stores)):
                rows = len(other.lengths)
                store[old : old + rows, :, :used] = x[:rows, :, :used]


def check_rewind(old: Sequence[int], new: Sequence[int]) -> None:
    """Raise ValueError unless every new length is at most the old one."""
    for before, after in zip(old, new, strict=True):
        if not 0 <= after <= before:
            raise ValueError(f"cannot rewind a sequence of {before} tokens to {after}")
