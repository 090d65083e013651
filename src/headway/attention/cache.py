"""Keys and values of the tokens already decoded, so that each is projected once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.attention.masks import Mask
from headway.shapes import Float, Tensor


class KeyValueCache:
    """Keys and values of one attention layer for N rows that may differ in length.

    Row n holds its tokens at positions 0 ... lengths[n] - 1; what lies behind is leftover and is
    never attended to. Space doubles when it is full. Passed along and returned as part of a decode
    state, never stored on a module.
    """

    def __init__(self, num_rows: int) -> None:
        self.lengths = [0] * num_rows
        self._keys: Tensor | None = None  # N H capacity K
        self._values: Tensor | None = None  # N H capacity Kv

    def append(
        self, k: Float[Tensor, "N H T K"], v: Float[Tensor, "N H T Kv"]
    ) -> tuple[Float[Tensor, "N H S K"], Float[Tensor, "N H S Kv"], Mask]:
        """Store T new tokens a row; return all keys and values so far and the mask to use."""
        num_new = k.shape[2]
        total = max(self.lengths, default=0) + num_new
        self._keys = _with_room(self._keys, k, total)
        self._values = _with_room(self._values, v, total)
        uniform = len(set(self.lengths)) <= 1
        if uniform:
            self._keys[:, :, total - num_new : total] = k
            self._values[:, :, total - num_new : total] = v
            mask = Mask(causal=True)
        else:
            past = torch.tensor(self.lengths, device=k.device)
            rows = torch.arange(len(self.lengths), device=k.device)[:, None]
            places = past[:, None] + torch.arange(num_new, device=k.device)
            self._keys[rows, :, places] = k.transpose(1, 2)  # N H T K -> N T H K
            self._values[rows, :, places] = v.transpose(1, 2)
            mask = Mask(causal=True, past=past)
        self.lengths = [length + num_new for length in self.lengths]
        return self._keys[:, :, :total], self._values[:, :, :total], mask

    def reorder(self, rows: Sequence[int]) -> None:
        """Row i becomes old row rows[i]; rows may repeat or be dropped."""
        self.lengths = [self.lengths[row] for row in rows]
        if self._keys is not None and self._values is not None:
            index = torch.tensor(rows, dtype=torch.long, device=self._keys.device)
            used = max(self.lengths, default=0)
            self._keys = _select(self._keys, index, used)
            self._values = _select(self._values, index, used)

    def rewind(self, lengths: Sequence[int]) -> None:
        """Take tokens back: row n keeps its first lengths[n]."""
        for old, new in zip(self.lengths, lengths, strict=True):
            if not 0 <= new <= old:
                raise ValueError(f"cannot rewind a row of {old} tokens to {new}")
        self.lengths = list(lengths)

    @staticmethod
    def join(caches: Sequence[KeyValueCache]) -> KeyValueCache:
        """The rows of several caches of one layer in one cache, in order."""
        filled = [c for c in caches if c._keys is not None and c._values is not None]
        joined = KeyValueCache(0)
        joined.lengths = [length for cache in caches for length in cache.lengths]
        if not filled:
            return joined
        if len(filled) != len(caches):
            raise ValueError("a state that has not decoded any token cannot join one that has")
        total = max(joined.lengths)
        joined._keys = _stack([c._keys for c in filled if c._keys is not None], total)
        joined._values = _stack([c._values for c in filled if c._values is not None], total)
        return joined


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


def _stack(stores: list[Tensor], total: int) -> Tensor:
    rows = sum(store.shape[0] for store in stores)
    out = stores[0].new_zeros(rows, stores[0].shape[1], total, stores[0].shape[3])
    start = 0
    for store in stores:
        used = min(total, store.shape[2])
        out[start : start + store.shape[0], :, :used] = store[:, :, :used]
        start += store.shape[0]
    return out
