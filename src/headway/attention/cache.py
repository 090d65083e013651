"""What is kept of the tokens already decoded, so that nothing is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from headway.attention.masks import Mask
from headway.shapes import Float, Tensor

Cache = TypeVar("Cache", bound="TokenCache")


class TokenCache:
    """What a decoder keeps of each token, for N rows that may differ in length.

    Row n holds its tokens at places 0 ... lengths[n] - 1; what lies behind is leftover and is
    never looked at. Space doubles when it is full. Passed along and returned as part of a decode
    state, never stored on a module.
    """

    def __init__(self, num_rows: int) -> None:
        self.lengths = [0] * num_rows
        self._stores: list[Tensor] = []  # each N H capacity K

    def extend(self, *new: Float[Tensor, "N H T _"]) -> list[Tensor]:
        """Store T tokens more in each row; all of them so far, "N H S K" each.

        The same kinds of things, in the same order, at every call.
        """
        num_new = new[0].shape[2]
        total = max(self.lengths, default=0) + num_new
        stores: Sequence[Tensor | None] = self._stores or [None] * len(new)
        self._stores = [_with_room(s, x, total) for s, x in zip(stores, new, strict=True)]
        if self.uniform:
            for store, x in zip(self._stores, new, strict=True):
                store[:, :, total - num_new : total] = x
        else:
            past = torch.tensor(self.lengths, device=new[0].device)
            rows = torch.arange(len(self.lengths), device=new[0].device)[:, None]
            where = past[:, None] + torch.arange(num_new, device=new[0].device)
            for store, x in zip(self._stores, new, strict=True):
                store[rows, :, where] = x.transpose(1, 2)  # N H T K -> N T H K
        self.lengths = [length + num_new for length in self.lengths]
        return [store[:, :, :total] for store in self._stores]

    @property
    def uniform(self) -> bool:
        """Whether all rows are of one length."""
        return len(set(self.lengths)) <= 1

    def last(self) -> list[Float[Tensor, "N H K"]]:
        """The newest token of each row."""
        if self.uniform:
            return [store[:, :, self.lengths[0] - 1] for store in self._stores]
        rows = torch.arange(len(self.lengths), device=self._stores[0].device)
        where = torch.tensor(self.lengths, device=rows.device) - 1
        return [store[rows, :, where] for store in self._stores]

    def reorder(self, rows: Sequence[int]) -> None:
        """Row i becomes old row rows[i]; rows may repeat or be dropped."""
        self.lengths = [self.lengths[row] for row in rows]
        if self._stores:
            index = torch.tensor(rows, dtype=torch.long, device=self._stores[0].device)
            used = max(self.lengths, default=0)
            self._stores = [_select(store, index, used) for store in self._stores]

    def rewind(self, lengths: Sequence[int]) -> None:
        """Take tokens back: row n keeps its first lengths[n]."""
        for old, new in zip(self.lengths, lengths, strict=True):
            if not 0 <= new <= old:
                raise ValueError(f"cannot rewind a row of {old} tokens to {new}")
        self.lengths = list(lengths)

    @classmethod
    def join(cls: type[Cache], caches: Sequence[Cache]) -> Cache:
        """The rows of several caches of one layer in one cache, in order."""
        joined = cls(0)
        joined.lengths = [length for cache in caches for length in cache.lengths]
        like = next((cache._stores for cache in caches if cache._stores), [])
        total = max(joined.lengths, default=0)
        parts = [cache._stores or _empty(like, len(cache.lengths)) for cache in caches]
        joined._stores = [_stack(stores, total) for stores in zip(*parts, strict=True)]
        return joined


class KeyValueCache(TokenCache):
    """Keys and values of one attention layer."""

    def append(
        self, k: Float[Tensor, "N H T K"], v: Float[Tensor, "N H T Kv"]
    ) -> tuple[Float[Tensor, "N H S K"], Float[Tensor, "N H S Kv"], Mask]:
        """Store T new tokens a row; return all keys and values so far and the mask to use."""
        past = None if self.uniform else torch.tensor(self.lengths, device=k.device)
        keys, values = self.extend(k, v)
        return keys, values, Mask(causal=True, past=past)


def _with_room(store: Tensor | None, new: Tensor, total: int) -> Tensor:
    """`store` with place for `total` tokens; doubled when it grows, so appending stays linear."""
    if store is None:
        shape = (*new.shape[:2], max(total, 16), new.shape[3])
        return new.new_zeros(shape)
    if store.shape[2] >= total:
        return store
    grown = store.new_zeros(*store.shape[:2], max(total, 2 * store.shape[2]), store.shape[3])
    grown[:, :, : store.shape[2]] = store
    return grown


def _select(store: Tensor, index: Tensor, used: int) -> Tensor:
    """Rows `index`, copying only the positions in use (the capacity stays as it was)."""
    chosen = store.new_empty(len(index), *store.shape[1:])
    chosen[:, :, :used] = store[:, :, :used].index_select(0, index)
    chosen[:, :, used:] = 0  # never attended to, but 0 x NaN would be NaN
    return chosen


def _empty(stores: Sequence[Tensor], num_rows: int) -> list[Tensor]:
    """Rows that hold no token yet, beside such stores."""
    return [store.new_zeros(num_rows, store.shape[1], 0, store.shape[3]) for store in stores]


def _stack(stores: Sequence[Tensor], total: int) -> Tensor:
    rows = sum(store.shape[0] for store in stores)
    out = stores[0].new_zeros(rows, stores[0].shape[1], total, stores[0].shape[3])
    start = 0
    for store in stores:
        used = min(total, store.shape[2])
        out[start : start + store.shape[0], :, :used] = store[:, :, :used]
        start += store.shape[0]
    return out
