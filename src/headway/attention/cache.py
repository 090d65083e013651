"""Key/value cache: K <- [K; k_new], V <- [V; v_new].

In causal attention the keys and values of earlier tokens do not depend on later ones. A decoder
therefore computes them once, keeps them, and processes only the new token at each step: generating
T tokens costs T steps over at most T keys instead of T full passes.

>>> import torch
>>> from headway.attention import KeyValueCache
>>> cache = KeyValueCache(num_rows=1)
>>> for word in (1.0, 2.0, 3.0):
...     k, v, mask = cache.append(torch.full((1, 1, 1, 2), word), torch.full((1, 1, 1, 2), -word))
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
from torch.nn.utils.rnn import pad_sequence

from headway.attention.masks import Mask
from headway.attention.relative import Past
from headway.base.shapes import Float, Tensor
from headway.base.transfers import upload


class KeyValues(NamedTuple):
    """Keys and values of a source, by heads; computed once, used by every query.

    M may be smaller than the number N of query sequences: then N / M consecutive ones, the beams of
    one sentence, share a row.
    """

    k: Float[Tensor, "M G S K"]
    v: Float[Tensor, "M G S Kv"]


class TokenCache:
    """Vectors of the tokens decoded so far, for N sequences that may differ in length.

    A cache is passed to a decoder and returned by it as part of the decode state, never stored on
    a module. `lengths`: the number of tokens of each sequence.
    """

    def __init__(self, num_rows: int) -> None:
        self.lengths = [0] * num_rows
        self._tokens: list[list[Tensor]] = []  # for each kind of vector: N tensors "H S K"

    def extend(self, *new: Float[Tensor, "N H T _"]) -> list[Float[Tensor, "N H S _"]]:
        """Append T tokens to each sequence; return all vectors, padded at the end with zeros.

        Each call passes the same kinds of vectors (keys, values) in the same order.
        """
        if not self._tokens:
            self._tokens = [[x.new_zeros(x.shape[0], 0, x.shape[2]) for x in kind] for kind in new]
        self._tokens = [
            [torch.cat((old, x), dim=1) for old, x in zip(rows, kind, strict=True)]
            for rows, kind in zip(self._tokens, new, strict=True)
        ]
        self.lengths = [length + new[0].shape[2] for length in self.lengths]
        return [_padded(rows) for rows in self._tokens]

    @property
    def past(self) -> Past:
        """What `positions_after` takes: the lengths now, before further tokens are appended."""
        return list(self.lengths)

    @property
    def uniform(self) -> bool:
        """Whether all sequences have the same length."""
        return len(set(self.lengths)) <= 1

    def last(self) -> list[Float[Tensor, "N H _"]]:
        """Return the vectors of the last token of each sequence."""
        return [torch.stack([x[:, -1] for x in rows]) for rows in self._tokens]

    def reorder(self, rows: Sequence[int]) -> None:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped.

        Beam search calls it with the parents of the beams that survive.
        """
        self.lengths = [self.lengths[row] for row in rows]
        self._tokens = [[kind[row] for row in rows] for kind in self._tokens]

    def rewind(self, lengths: Sequence[int]) -> None:
        """Take tokens back: sequence n keeps its first lengths[n]. ValueError if it has fewer."""
        check_rewind(self.lengths, lengths)
        self.lengths = list(lengths)
        self._tokens = [
            [x[:, :length] for x, length in zip(kind, lengths, strict=True)]
            for kind in self._tokens
        ]

    def admit(self, other: TokenCache) -> None:
        """Append the sequences of another cache of the same layer, which is not used afterwards."""
        like = next((cache._tokens for cache in (self, other) if any(cache._tokens)), [])
        self._tokens = [
            [*mine, *theirs]
            for mine, theirs in zip(self._with_kinds(like), other._with_kinds(like), strict=True)
        ]
        self.lengths = [*self.lengths, *other.lengths]

    def _with_kinds(self, like: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """Return the vectors of all tokens, of the same kinds as `like` if there is none yet."""
        if any(self._tokens):
            return self._tokens
        return [[kind[0][:, :0]] * len(self.lengths) for kind in like]

    def release(self, row: int) -> None:
        """Remove a sequence; the last one takes its place."""
        last = len(self.lengths) - 1
        self.reorder([last if n == row else n for n in range(last)])

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for so many sequences of so many tokens at once, where a cache has such."""

    def tokens(self, row: int, start: int, stop: int) -> list[Float[Tensor, "H T _"]]:
        """Return copies of the vectors of tokens start ... stop - 1 of a sequence, by kind.

        `extend` with them, in another cache of the layer, appends these tokens.
        """
        return [rows[row][:, start:stop].clone() for rows in self._tokens]


class KeyValueCache(TokenCache):
    """Keys and values of one attention layer."""

    def append(
        self, k: Float[Tensor, "N G T K"], v: Float[Tensor, "N G T Kv"]
    ) -> tuple[Float[Tensor, "N G S K"], Float[Tensor, "N G S Kv"], Mask]:
        """Append T tokens; return all keys, all values, and the causal mask for the new queries."""
        past = None if self.uniform else upload(torch.tensor(self.lengths), k.device)
        keys, values = self.extend(k, v)
        return keys, values, Mask(causal=True, past=past)


def check_rewind(old: Sequence[int], new: Sequence[int]) -> None:
    """Raise ValueError unless every new length is at most the old one."""
    for before, after in zip(old, new, strict=True):
        if not 0 <= after <= before:
            raise ValueError(f"cannot rewind a sequence of {before} tokens to {after}")


def _padded(rows: Sequence[Float[Tensor, "H _ K"]]) -> Float[Tensor, "N H S K"]:
    """Sequences of different lengths as one tensor; the mask hides the zeros at the end."""
    return pad_sequence([x.transpose(0, 1) for x in rows], batch_first=True).transpose(1, 2)
