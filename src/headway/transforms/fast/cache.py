"""Fast twin of the cache: a new order is applied late, in the memory of the one before, or only
noted, where compiled loops read the tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import torch

from headway.attention import KeyValueCache, LayerCache, Mask, Step
from headway.base.shapes import Int, Tensor
from headway.base.transfers import upload

ALIGNED = 64
"""The number of keys of `AlignedCache` is a multiple of it."""


class FastCache(KeyValueCache):
    """`KeyValueCache` whose new orders allocate no memory.

    A new order is applied when the tokens are next used, unless a recorded step does it for all
    layers at once (`order_in`). It is written into the tensors of the last order but one, so that a
    beam search allocates no memory at each step. Compiled loops read tokens from the rows in which
    they were written (`in_place`), so that nothing moves.
    """

    def __init__(self, num_rows: int, num_layers: int) -> None:
        super().__init__(num_rows, num_layers)
        self._spare: list[list[Tensor]] = []
        self._order: list[int] | None = None  # sequence n is at present in row order[n]
        self._token_rows: Int[Tensor, "N C"] | None = None  # token j of that row is in one of these
        self.is_looked_at = False
        self.looped: object | None = None  # the loops of `looped_stack`

    @property
    def layers(self) -> list[LayerCache]:
        self._apply_order()
        return self._layers

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the vectors; None before the first token."""
        stores = self._layers[0].stores
        return stores[0].dtype if stores else None

    def in_place(self) -> tuple[list[LayerCache], Int[Tensor, "N C"] | None]:
        """Return the layers for a step of one token on a CPU, and the row that has token j of
        sequence n, or is to have the new one; None if it is row n.

        The new token of sequence n is always in row n, where no other sequence has a token at this
        position if all are of the same length.
        """
        if not self.uniform or (self._order is None and self._token_rows is None):
            return self.layers, None
        rows, used = len(self.lengths), self.lengths[0]
        before = self._token_rows
        if before is None:
            assert self._order is not None
            before = torch.tensor(self._order, dtype=torch.int32)[:, None].expand(-1, used)
        elif self._order is not None:
            before = before[torch.tensor(self._order)]
        own = torch.arange(rows, dtype=torch.int32)[:, None]
        self._token_rows, self._order = torch.cat((before[:rows, :used], own), dim=1), None
        return self._layers, self._token_rows

    @property
    def is_begun(self) -> bool:
        """Whether tokens have been written."""
        return all(layer.stores for layer in self._layers)

    def reorder(self, rows: Sequence[int]) -> None:
        moved = [(row, old) for row, old in enumerate(rows) if row != old]
        lengths, self.lengths = self.lengths, [self.lengths[row] for row in rows]
        if not moved or not self.is_begun:
            return
        is_in_rows = self._order is None and self._token_rows is None
        if is_in_rows and len(moved) == 1 and moved[0][1] >= len(rows):
            # one from the end takes the place of another, as when an output of a server ends
            row, old = moved[0]
            stores = list(_stores(self._layers))
            if torch.is_inference_mode_enabled() or not stores[0].is_inference():
                for store in stores:
                    store[row, :, : lengths[old]] = store[old, :, : lengths[old]]
                return
        before = self._order
        self._order = list(rows) if before is None else [before[row] for row in rows]

    def _apply_order(self) -> None:
        """Move each sequence to its row."""
        if self._token_rows is not None:
            rows = self._token_rows[:, : max(self.lengths, default=0)].long()
            for layer in self._layers:
                layer.stores = [_gathered(store, rows) for store in layer.stores]
            self._token_rows = None
        if self._order is None:
            return
        device = self._layers[0].stores[0].device
        index = upload(torch.tensor(self._order, dtype=torch.long), device)
        used, spare = max(self.lengths, default=0), self._spare
        self._spare, self._order = [layer.stores for layer in self._layers], None
        for number, layer in enumerate(self._layers):
            into: Sequence[Tensor | None] = spare[number] if spare else [None] * len(layer.stores)
            pairs = zip(layer.stores, into, strict=True)
            layer.stores = [_select(store, index, used, room) for store, room in pairs]

    def order_in(self, stores: Sequence[Sequence[Tensor]]) -> list[int] | None:
        """Return the order that is still to be applied if the tokens are in these tensors."""
        return self._order if self._token_rows is None and self._are_in(stores) else None

    def order_was_applied(self) -> None:
        """Note that each sequence has been moved to its row."""
        self._order = None

    def move_into(self, stores: Sequence[Sequence[Tensor]]) -> None:
        """Keep all tokens in these tensors from now on, which have room for them. stores: by layer
        and kind."""
        layers = self.layers
        if self._are_in(stores):
            return
        rows, used = len(self.lengths), max(self.lengths, default=0)
        for old, new in zip(_stores(layers), chain(*stores), strict=True):
            new[:rows, :, :used] = old[:rows, :, :used]
        # After a reordering they are the spare ones. Otherwise the spare ones belong to the tensors
        # that are left, which another cache may use.
        was_reordered = bool(self._spare) and self._spare[0][0] is stores[0][0]
        self._spare = [layer.stores for layer in layers] if was_reordered else []
        for layer, of_layer in zip(layers, stores, strict=True):
            layer.stores = list(of_layer)

    def _are_in(self, stores: Sequence[Sequence[Tensor]]) -> bool:
        mine = _stores(self._layers)
        return all(old is new for old, new in zip(mine, chain(*stores), strict=True))

    def join(self, other: KeyValueCache) -> None:
        super().join(other)
        self._spare = []  # has no room for more rows


class AlignedCache(FastCache):
    """`KeyValueCache` whose keys are always a multiple of 64, of which the mask hides the rest.

    Sums over more zeros, 64 at a time, round as the sums without them, so that a sequence has the
    same bits beside a longer one.
    """

    def step(self, num_tokens: int, device: torch.device) -> Step:
        step = super().step(num_tokens, device)
        mask = Mask(causal=True, past=step.positions[:, 0].expand(len(self.lengths)))
        return replace(step, mask=mask, num_keys=-(-step.num_keys // ALIGNED) * ALIGNED)


def _stores(layers: Iterable[LayerCache]) -> Iterable[Tensor]:
    return chain.from_iterable(layer.stores for layer in layers)


def _gathered(store: Tensor, rows: Int[Tensor, "N S"]) -> Tensor:
    """Return sequences whose token j is in the row rows[n, j] of `store`."""
    _, heads, capacity, width = store.shape
    gathered = store.new_zeros(len(rows), heads, capacity, width)
    tokens = store[rows, :, torch.arange(rows.shape[1])]  # N S H K
    gathered[:, :, : rows.shape[1]] = tokens.transpose(1, 2)
    return gathered


def _select(store: Tensor, index: Tensor, used: int, into: Tensor | None) -> Tensor:
    """Return sequences `index`, of which only the first `used` tokens matter, in the memory of
    `into` if it has room for them."""
    has_room = into is not None and len(into) >= len(index) and into.shape[1:] == store.shape[1:]
    if into is None or not has_room or torch.is_grad_enabled():
        return store.index_select(0, index)
    selected = into[: len(index)]
    torch.index_select(store[:, :, :used], 0, index, out=selected[:, :, :used])
    return selected
