"""Fast twins of the decoding caches: space is reserved ahead, so a token is written, not copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from headway.attention.cache import KeyValueCache, TokenCache, check_rewind
from headway.attention.masks import Mask
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.transforms.tracing import tracing

ALIGNED = 64
"""The number of keys of `AlignedKeyValues` is a multiple of it."""


class PreallocatedTokens(TokenCache):
    """`TokenCache` in one tensor of each kind, whose capacity doubles when it is full.

    Sequence n has its tokens at positions 0 ... lengths[n] - 1; what follows is left over from
    earlier tokens, and the mask hides it. There may be room for more sequences than there are.
    A new order is applied when the tokens are next used, unless a recorded step does it for all
    layers at once (`order_in`). It is written into the tensors of the last order but one, so that a
    beam search allocates no memory at each step.
    """

    def __init__(self, num_rows: int) -> None:
        super().__init__(num_rows)
        self._stores: list[Tensor] = []  # each: rows H capacity K, of which the first N are used
        self._spare: list[Tensor] = []
        self._order: list[int] | None = None  # sequence n is at present in row order[n]

    def extend(self, *new: Float[Tensor, "N H T _"]) -> list[Tensor]:
        self._apply_order()
        num_new = new[0].shape[2]
        total = max(self.lengths, default=0) + num_new
        width = self._width(total)
        stores: Sequence[Tensor | None] = self._stores or [None] * len(new)
        self._stores = [_with_room(s, x, width) for s, x in zip(stores, new, strict=True)]
        if self.uniform:
            for store, x in zip(self._stores, new, strict=True):
                _first(store, len(x))[:, :, total - num_new : total] = x
        else:
            at = _places(self.lengths, num_new, new[0].device)
            for store, x in zip(self._stores, new, strict=True):
                store[at.rows, :, at.tokens] = x.transpose(1, 2)  # N H T K -> N T H K
        self.lengths = [length + num_new for length in self.lengths]
        return [_first(store, len(self.lengths))[:, :, :width] for store in self._stores]

    def _width(self, total: int) -> int:
        """Return the number of tokens that `extend` returns; the longest sequence has `total`."""
        return total

    def last(self) -> list[Float[Tensor, "N H K"]]:
        self._apply_order()
        if self.uniform:
            return [s[: len(self.lengths), :, self.lengths[0] - 1] for s in self._stores]
        rows = torch.arange(len(self.lengths), device=self._stores[0].device)
        where = upload(torch.tensor(self.lengths), rows.device) - 1
        return [store[rows, :, where] for store in self._stores]

    def reorder(self, rows: Sequence[int]) -> None:
        is_unchanged = list(rows) == list(range(len(self.lengths)))
        self.lengths = [self.lengths[row] for row in rows]
        if self._stores and not is_unchanged:
            before = self._order
            self._order = list(rows) if before is None else [before[row] for row in rows]

    def _apply_order(self) -> None:
        """Move each sequence to its row."""
        if self._order is None:
            return
        index = upload(torch.tensor(self._order, dtype=torch.long), self._stores[0].device)
        spare: Sequence[Tensor | None] = self._spare or [None] * len(self._stores)
        used = max(self.lengths, default=0)
        chosen = [
            _select(store, index, used, into)
            for store, into in zip(self._stores, spare, strict=True)
        ]
        self._stores, self._spare, self._order = chosen, self._stores, None

    def order_in(self, stores: Sequence[Tensor]) -> list[int] | None:
        """Return the order that is still to be applied if the tokens are in these tensors."""
        is_there = all(old is new for old, new in zip(self._stores, stores, strict=True))
        return self._order if is_there else None

    def order_was_applied(self) -> None:
        """Note that each sequence has been moved to its row."""
        self._order = None

    def rewind(self, lengths: Sequence[int]) -> None:
        check_rewind(self.lengths, lengths)
        self.lengths = list(lengths)

    def admit(self, other: TokenCache) -> None:
        assert isinstance(other, PreallocatedTokens)
        self._apply_order()
        other._apply_order()
        old, rows = len(self.lengths), len(self.lengths) + len(other.lengths)
        self.lengths = [*self.lengths, *other.lengths]
        like = self._stores or other._stores
        longest = max(self.lengths, default=0)
        stores: Sequence[Tensor | None] = self._stores or [None] * len(like)
        self._stores = [
            _with_capacity(store, kind, rows, longest)
            for store, kind in zip(stores, like, strict=True)
        ]
        self._spare = []
        used = max(other.lengths, default=0)
        for store, new in zip(self._stores, other._stores, strict=bool(other._stores)):
            store[old:rows, :, :used] = new[: len(other.lengths), :, :used]

    def release(self, row: int) -> None:
        self._apply_order()
        last = len(self.lengths) - 1
        length = self.lengths[last]
        for store in self._stores:
            store[row, :, :length] = store[last, :, :length]
        self.lengths = [length if n == row else self.lengths[n] for n in range(last)]

    @property
    def is_begun(self) -> bool:
        """Whether tokens have been written."""
        return bool(self._stores)

    @property
    def stores(self) -> Sequence[Float[Tensor, "R H S _"]]:
        """The tensors that the tokens are written in, with rows and positions to spare."""
        self._apply_order()
        return self._stores

    def move_into(self, stores: Sequence[Tensor]) -> None:
        """Keep all tokens in these tensors from now on, which have room for them."""
        self._apply_order()
        if all(old is new for old, new in zip(self._stores, stores, strict=True)):
            return
        rows, used = len(self.lengths), max(self.lengths, default=0)
        for old, new in zip(self._stores, stores, strict=True):
            new[:rows, :, :used] = old[:rows, :, :used]
        # After a reordering they are the spare ones. Otherwise the spare ones belong to the tensors
        # that are left, which another cache may use.
        was_reordered = bool(self._spare) and self._spare[0] is stores[0]
        self._spare = self._stores if was_reordered else []
        self._stores = list(stores)

    def reserve(self, rows: int, tokens: int) -> None:
        self._apply_order()
        self._stores = [_with_capacity(s, s, rows, tokens) for s in self._stores]

    def tokens(self, row: int, start: int, stop: int) -> list[Float[Tensor, "H T _"]]:
        self._apply_order()
        return [store[row, :, start:stop].clone() for store in self._stores]


class PreallocatedKeyValues(PreallocatedTokens, KeyValueCache):
    """`KeyValueCache` in preallocated tensors."""

    always_masked = False
    """Whether `append` returns a mask with `past` even if all sequences have one length."""

    def append(
        self, k: Float[Tensor, "N G T K"], v: Float[Tensor, "N G T Kv"]
    ) -> tuple[Float[Tensor, "N G S K"], Float[Tensor, "N G S Kv"], Mask]:
        past = None
        if self.always_masked or not self.uniform:
            past = _places(self.lengths, k.shape[2], k.device).past
        keys, values = self.extend(k, v)
        return keys, values, Mask(causal=True, past=past)


class AlignedKeyValues(PreallocatedKeyValues):
    """`KeyValueCache` whose keys are always a multiple of 64, of which the mask hides the rest.

    Sums over more zeros, 64 at a time, round as the sums without them, so that a sequence has the
    same bits beside a longer one.
    """

    always_masked = True

    def _width(self, total: int) -> int:
        return -(-total // ALIGNED) * ALIGNED


@dataclass(frozen=True)
class _Places:
    """Where new tokens are: after the `past` ones of their sequence, store[rows, :, tokens]."""

    past: Int[Tensor, " N"]
    rows: Int[Tensor, "N 1"]
    tokens: Int[Tensor, "N T"]


def _places(lengths: Sequence[int], num_new: int, device: torch.device) -> _Places:
    """Return the places of `num_new` tokens; all layers of a step get the same tensors."""
    if tracing():
        return _found_places(tuple(lengths), num_new, device)
    # gradients may not use what was made without them
    is_inference = torch.is_inference_mode_enabled()
    return _last_places(tuple(lengths), num_new, device, is_inference)


def _found_places(lengths: tuple[int, ...], num_new: int, device: torch.device) -> _Places:
    past = upload(torch.tensor(lengths, dtype=torch.long), device)
    rows = torch.arange(len(lengths), device=device)[:, None]
    return _Places(past, rows, past[:, None] + torch.arange(num_new, device=device))


@lru_cache(maxsize=1)
def _last_places(
    lengths: tuple[int, ...], num_new: int, device: torch.device, is_inference: bool
) -> _Places:
    del is_inference  # part of the key only
    return _found_places(lengths, num_new, device)


def _with_room(store: Tensor | None, new: Tensor, total: int) -> Tensor:
    """Return `store` with capacity for `total` tokens of the rows of `new`."""
    return _with_capacity(store, new, len(new), max(total, 16))


def _with_capacity(store: Tensor | None, like: Tensor, rows: int, tokens: int) -> Tensor:
    """Return `store` with capacity for so many rows and tokens; doubling keeps appending linear.

    like: has the shape of a token's vectors, for a store that does not exist yet.
    """
    if store is None:
        return like.new_zeros(rows, like.shape[1], tokens, like.shape[3])
    old_rows, old_tokens = store.shape[0], store.shape[2]
    if old_rows >= rows and old_tokens >= tokens:
        return store
    rows = old_rows if rows <= old_rows else max(rows, 2 * old_rows)
    tokens = old_tokens if tokens <= old_tokens else max(tokens, 2 * old_tokens)
    grown = store.new_zeros(rows, store.shape[1], tokens, store.shape[3])
    grown[:old_rows, :, :old_tokens] = store
    return grown


def _select(store: Tensor, index: Tensor, used: int, into: Tensor | None) -> Tensor:
    """Return sequences `index`, of which only the first `used` tokens matter, in the memory of
    `into` if it has room for them."""
    has_room = into is not None and len(into) >= len(index) and into.shape[1:] == store.shape[1:]
    if into is None or not has_room or torch.is_grad_enabled():
        return store.index_select(0, index)
    selected = into[: len(index)]
    torch.index_select(store[:, :, :used], 0, index, out=selected[:, :, :used])
    return selected


def _first(store: Tensor, rows: int) -> Tensor:
    """Return the first rows of a store: itself if it has no others, which saves an operation."""
    return store if len(store) == rows else store[:rows]
