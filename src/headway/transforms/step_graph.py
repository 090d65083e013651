"""One step of decoding as a graph: recorded once, then replayed with other tokens and lengths.

On a GPU, one step of a text is bound by launching its kernels, about 15 for each layer. All that
changes from step to step is in tensors of the device, so that it can be recorded (`recorder.py`):
the new tokens, the number of earlier ones, keys and values.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple
from weakref import ReferenceType, ref

import torch

from headway.attention import KeyValueCache
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.blocks import DecoderState
from headway.transforms.fast.cache import FastCache
from headway.transforms.fast.static_cache import StaticCache
from headway.transforms.recorder import Recorder
from headway.transforms.static_memory import Sources, StaticMemory

StepFunction = Callable[
    [Int[Tensor, "N T"], DecoderState], tuple[Float[Tensor, "N T V"], DecoderState]
]


class Shape(NamedTuple):
    """Room for this number of sequences (rows), and of tokens in each (capacity).

    autocast: the dtype of autocast in the step; None without autocast. sources: room for source
    sentences; None for a language model.
    """

    rows: int
    capacity: int
    autocast: torch.dtype | None
    sources: Sources | None = None

    def num_bytes(self, like: DecoderState) -> int:
        """Return the size of the keys and values in a graph of this shape, for states like this."""
        stores = chain.from_iterable(layer.stores for layer in like.cache.layers)
        total = self.rows * self.capacity * _bytes_of_token(stores)
        if like.memory is not None and self.sources is not None:
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

    def __init__(
        self, step: StepFunction, like: DecoderState, shape: Shape, recorder: Recorder
    ) -> None:
        self.shape, self.num_bytes = shape, shape.num_bytes(like)
        self._recorder = recorder
        self._owner: ReferenceType[KeyValueCache] | None = None
        rows, capacity, dtype, sources = shape
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
                [x.new_zeros(rows, x.shape[1], capacity, x.shape[3]) for x in layer.stores]
                for layer in like.cache.layers
            ]
            self._moved = sum(x.nbytes for x in chain(*self._stores))
            self._row_order: RowOrder | None = None
            self._memory: StaticMemory | None = None
            if like.memory is not None and sources is not None:
                self._memory = StaticMemory(like.memory, sources, rows)
            static = StaticCache(self._stores, of_rows, self._past)
            # kept, as all tensors that the recorded step reads: their memory must not be reused
            self._state = DecoderState(
                static, None if self._memory is None else self._memory.memory
            )
            self._logits = recorder.record(lambda: step(self._tokens, self._state)[0])

    @property
    def is_free(self) -> bool:
        """Whether the owner is gone."""
        return self._owner is None or self._owner() is None

    def belongs_to(self, state: DecoderState) -> bool:
        """Whether the state is the owner."""
        return self._owner is not None and self._owner() is state.cache

    def fits(self, state: DecoderState, autocast: torch.dtype | None) -> bool:
        """Whether the state has room for one more token of each sequence."""
        rows, capacity, dtype, sources = self.shape
        has_room = len(state.lengths) <= rows and max(state.lengths) < capacity
        if state.memory is not None and sources is not None:
            has_room = has_room and sources.fit(state.memory)
        return has_room and dtype == autocast

    def adopt(self, state: DecoderState) -> None:
        """Make the state the owner."""
        self._owner = ref(state.cache)

    def release(self) -> None:
        """Be free: the owner has moved its keys and values into other tensors."""
        self._owner = None

    def step(self, tokens: Int[Tensor, "N 1"], state: DecoderState) -> Float[Tensor, "N 1 V"]:
        """Return the logits after the new tokens of the owner, which are appended to it."""
        self.hold(state)
        lengths, count = state.lengths, len(state.lengths)
        self._tokens[:count] = tokens
        unused = [0] * (self.shape[0] - count)
        self._past.copy_(upload(torch.tensor([*lengths, *unused]), self._past.device))
        self._recorder.replay()
        state.cache.advance(1)
        return self._logits[:count].clone()  # the next replay overwrites them

    def hold(self, state: DecoderState) -> None:
        """Have the keys and values of the owner in the graph's tensors, in their order.

        It may have left them: growing writes other tensors.
        """
        cache = state.cache
        assert isinstance(cache, FastCache)
        order = cache.order_in(self._stores)
        if order is not None and self._moved <= MOST_MOVED:
            if self._row_order is None:
                recorder = type(self._recorder)(self._recorder.device, self._recorder)
                self._row_order = RowOrder(list(chain(*self._stores)), recorder)
            self._row_order.apply(order)
            cache.order_was_applied()
        cache.move_into(self._stores)
        if self._memory is not None and state.memory is not None:
            self._memory.keep(state.memory)
