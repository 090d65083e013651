"""Fast twins of the decoding caches: space is reserved ahead, so a token is written, not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from headway.attention.cache import KeyValueCache, TokenCache, check_rewind
from headway.machine import upload
from headway.shapes import Float, Tensor

Cache = TypeVar("Cache", bound="PreallocatedTokens")


class PreallocatedTokens(TokenCache):
    """`TokenCache` in one tensor of each kind, whose capacity doubles when it is full.

    Sequence n has its tokens at positions 0 ... lengths[n] - 1; what follows is left over from
    earlier tokens, and the mask hides it. Reordering writes into the tensors of the last reordering
    but one, so that a beam search allocates no memory at each step.
    """

    def __init__(self, num_rows: int) -> None:
        super().__init__(num_rows)
        self._stores: list[Tensor] = []  # each N H capacity K
        self._spare: list[Tensor] = []

    def extend(self, *new: Float[Tensor, "N H T _"]) -> list[Tensor]:
        num_new = new[0].shape[2]
        total = max(self.lengths, default=0) + num_new
        stores: Sequence[Tensor | None] = self._stores or [None] * len(new)
        self._stores = [_with_room(s, x, total) for s, x in zip(stores, new, strict=True)]
        if self.uniform:
            for store, x in zip(self._stores, new, strict=True):
                store[:, :, total - num_new : total] = x
        else:
            past = upload(torch.tensor(self.lengths), new[0].device)
            rows = torch.arange(len(self.lengths), device=new[0].device)[:, None]
            where = past[:, None] + torch.arange(num_new, device=new[0].device)
            for store, x in zip(self._stores, new, strict=True):
                store[rows, :, where] = x.transpose(1, 2)  # N H T K -> N T H K
        self.lengths = [length + num_new for length in self.lengths]
        return [store[:, :, :total] for store in self._stores]

    def last(self) -> list[Float[Tensor, "N H K"]]:
        if self.uniform:
            return [store[:, :, self.lengths[0] - 1] for store in self._stores]
        rows = torch.arange(len(self.lengths), device=self._stores[0].device)
        where = upload(torch.tensor(self.lengths), rows.device) - 1
        return [store[rows, :, where] for store in self._stores]

    def reorder(self, rows: Sequence[int]) -> None:
        is_unchanged = list(rows) == list(range(len(self.lengths)))
        self.lengths = [self.lengths[row] for row in rows]
        if self._stores and not is_unchanged:
            index = upload(torch.tensor(rows, dtype=torch.long), self._stores[0].device)
            spare: Sequence[Tensor | None] = self._spare or [None] * len(self._stores)
            chosen = [_select(s, index, into) for s, into in zip(self._stores, spare, strict=True)]
            self._stores, self._spare = chosen, self._stores

    def rewind(self, lengths: Sequence[int]) -> None:
        check_rewind(self.lengths, lengths)
        self.lengths = list(lengths)

    @classmethod
    def join(cls: type[Cache], caches: Sequence[Cache]) -> Cache:
        joined = cls(0)
        joined.lengths = [length for cache in caches for length in cache.lengths]
        like = next((cache._stores for cache in caches if cache._stores), [])
        total = max(joined.lengths, default=0)
        parts = [cache._stores or _empty(like, len(cache.lengths)) for cache in caches]
        joined._stores = [_stack(stores, total) for stores in zip(*parts, strict=True)]
        return joined


class PreallocatedKeyValues(PreallocatedTokens, KeyValueCache):
    """`KeyValueCache` in preallocated tensors."""


def _with_room(store: Tensor | None, new: Tensor, total: int) -> Tensor:
    """Return `store` with capacity for `total` tokens; doubling keeps appending linear."""
    if store is None:
        shape = (*new.shape[:2], max(total, 16), new.shape[3])
        return new.new_zeros(shape)
    if store.shape[2] >= total:
        return store
    grown = store.new_zeros(*store.shape[:2], max(total, 2 * store.shape[2]), store.shape[3])
    grown[:, :, : store.shape[2]] = store
    return grown


def _select(store: Tensor, index: Tensor, into: Tensor | None) -> Tensor:
    """Return sequences `index`, in the memory of `into` if it has room for them."""
    has_room = into is not None and len(into) >= len(index) and into.shape[1:] == store.shape[1:]
    if into is None or not has_room or torch.is_grad_enabled():
        return store.index_select(0, index)
    return torch.index_select(store, 0, index, out=into[: len(index)])


def _empty(stores: Sequence[Tensor], num_rows: int) -> list[Tensor]:
    """Return stores of the same kinds for sequences without a token."""
    return [store.new_zeros(num_rows, store.shape[1], 0, store.shape[3]) for store in stores]


def _stack(stores: Sequence[Tensor], total: int) -> Tensor:
    """Return the sequences of several stores in one of capacity `total`."""
    rows = sum(store.shape[0] for store in stores)
    out = stores[0].new_zeros(rows, stores[0].shape[1], total, stores[0].shape[3])
    start = 0
    for store in stores:
        used = min(total, store.shape[2])
        out[start : start + store.shape[0], :, :used] = store[:, :, :used]
        start += store.shape[0]
    return out
