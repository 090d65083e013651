"""One step of decoding as a graph: recorded once, then replayed with other tokens and lengths.

On a GPU, one step of a text is bound by launching its kernels, about 15 for each layer. All that
changes from step to step is in tensors of the device, so that it can be recorded (`recorder.py`):
the new tokens, the number of earlier ones, keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import torch

from headway.attention import KeyValueCache
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.blocks import DecoderOnlyState, DecoderState
from headway.transforms.fast.cache import PreallocatedKeyValues
from headway.transforms.fast.static_cache import StaticKeyValues
from headway.transforms.recorder import Recorder, forget_last_step
from headway.transforms.static_memory import Sources, StaticMemory

State = DecoderOnlyState | DecoderState
Step = Callable[[Int[Tensor, "N T"], Any], tuple[Float[Tensor, "N T V"], Any]]


class Shape(NamedTuple):
    """Room for this number of sequences (rows), and of tokens in each (capacity).

    autocast: the dtype of autocast in the step; None without autocast. sources: room for source
    sentences; None for a language model.
    """

    rows: int
    capacity: int
    autocast: torch.dtype | None
    sources: Sources | None = None

    def num_bytes(self, like: State) -> int:
        """Return the size of the keys and values in a graph of this shape, for states like this."""
        caches = [cache for cache in like.caches if isinstance(cache, PreallocatedKeyValues)]
        total = self.rows * self.capacity * _bytes_of_token(x for c in caches for x in c.stores)
        if isinstance(like, DecoderState) and self.sources is not None:
            total += self.sources.tokens * _bytes_of_token(chain(*like.memory.layers))
        return total


def _bytes_of_token(stores: Iterable[Float[Tensor, "R H S _"]]) -> int:
    return sum(x.shape[1] * x.shape[3] * x.element_size() for x in stores)


MOST_MOVED = 2**30
"""Bytes of keys and values up to which a new order moves the whole room of a graph at once. Of more
of them, only the part with tokens is moved, layer by layer."""


class RowOrder:
    """Moves sequences to other rows of tensors, in all of them at once: recorded once."""

    def __init__(self, stores: Sequence[Float[Tensor, "R H S _"]], recorder: Recorder) -> None:
        self._stores, self._recorder = stores, recorder
        with torch.inference_mode(False), torch.no_grad():
            # while it is recorded, each row stays where it is
            self._order = torch.arange(len(stores[0]), device=recorder.device)
            recorder.record(self._move)

    def _move(self) -> Int[Tensor, " R"]:
        for store in self._stores:
            store.copy_(store.index_select(0, self._order))
        return self._order

    def apply(self, order: Sequence[int]) -> None:
        """Make row n the former row order[n]; further rows stay."""
        others = range(len(order), len(self._order))
        self._order.copy_(upload(torch.tensor([*order, *others]), self._order.device))
        self._recorder.replay()


class StepGraph:
    """One step of a model for up to `rows` sequences of up to `capacity` tokens, recorded.

    The caches of one decode state at a time, its owner, have their keys and values in the graph's
    tensors. Rows without a sequence compute numbers that are not used.
    """

    def __init__(self, step: Step, like: State, shape: Shape, recorder: Recorder) -> None:
        self.shape, self.num_bytes = shape, shape.num_bytes(like)
        self._recorder = recorder
        self._owner: ReferenceType[KeyValueCache] | None = None
        rows, capacity, dtype, sources = shape
        caches = [cache for cache in like.caches if isinstance(cache, PreallocatedKeyValues)]
        # without autocast's cache: weights in it would be recorded as constants
        autocast = torch.autocast(
            recorder.device.type, dtype, enabled=dtype is not None, cache_enabled=False
        )
        # not in inference mode: its tensors could be changed only there
        with torch.inference_mode(False), torch.no_grad(), autocast:
            of_rows = torch.arange(rows, device=recorder.device)
            self._past = torch.zeros_like(of_rows)
            self._tokens = torch.zeros_like(of_rows)[:, None]
            self._stores = [
                [x.new_zeros(rows, x.shape[1], capacity, x.shape[3]) for x in cache.stores]
                for cache in caches
            ]
            self._moved = sum(x.nbytes for x in chain(*self._stores))
            self._row_order: RowOrder | None = None
            static: list[KeyValueCache] = [
                StaticKeyValues(stores, of_rows, self._past) for stores in self._stores
            ]
            self._memory: StaticMemory | None = None
            # kept, as all tensors that the recorded step reads: their memory must not be reused
            self._state: State = DecoderOnlyState(static)
            if isinstance(like, DecoderState) and sources is not None:
                self._memory = StaticMemory(like.memory, sources)
                self._state = DecoderState(static, self._memory.memory)
            try:
                self._logits = recorder.record(lambda: self._run(step, self._state))
            finally:
                forget_last_step()  # whose mask and positions are in the memory of the graph

    def _run(self, step: Step, state: State) -> Float[Tensor, "R 1 V"]:
        forget_last_step()  # or what it computed would be recorded as constants
        return step(self._tokens, state)[0]

    @property
    def is_free(self) -> bool:
        """Whether the owner is gone."""
        return self._owner is None or self._owner() is None

    def belongs_to(self, state: State) -> bool:
        """Whether the state is the owner."""
        return self._owner is not None and self._owner() is state.caches[0]

    def fits(self, state: State, autocast: torch.dtype | None) -> bool:
        """Whether the state has room for one more token of each sequence."""
        rows, capacity, dtype, sources = self.shape
        has_room = len(state.lengths) <= rows and max(state.lengths) < capacity
        if isinstance(state, DecoderState) and sources is not None:
            has_room = has_room and sources.fit(state.memory)
        return has_room and dtype == autocast

    def adopt(self, state: State) -> None:
        """Make the state the owner."""
        self._owner = ref(state.caches[0])

    def release(self) -> None:
        """Be free: the owner has moved its keys and values into other tensors."""
        self._owner = None

    def step(self, tokens: Int[Tensor, "N 1"], state: State) -> Float[Tensor, "N 1 V"]:
        """Return the logits after the new tokens of the owner, which are appended to it."""
        self.hold(state)
        lengths, count = state.lengths, len(state.lengths)
        self._tokens[:count] = tokens
        unused = [0] * (self.shape[0] - count)
        self._past.copy_(upload(torch.tensor([*lengths, *unused]), self._past.device))
        self._recorder.replay()
        following = [length + 1 for length in lengths]
        for cache in state.caches:
            cache.lengths = following
        return self._logits[:count].clone()  # the next replay overwrites them

    def hold(self, state: State) -> None:
        """Have the keys and values of the owner in the graph's tensors, in their order.

        It may have left them: growing writes other tensors.
        """
        caches = [cache for cache in state.caches if isinstance(cache, PreallocatedKeyValues)]
        pairs = list(zip(caches, self._stores, strict=True))
        order = caches[0].order_in(self._stores[0])
        is_same = all(cache.order_in(stores) == order for cache, stores in pairs)
        if order is not None and is_same and self._moved <= MOST_MOVED:
            if self._row_order is None:
                recorder = type(self._recorder)(self._recorder.device, self._recorder)
                self._row_order = RowOrder(list(chain(*self._stores)), recorder)
            self._row_order.apply(order)
            for cache in caches:
                cache.order_was_applied()
        for cache, stores in pairs:
            cache.move_into(stores)
        if self._memory is not None and isinstance(state, DecoderState):
            self._memory.keep(state.memory)
