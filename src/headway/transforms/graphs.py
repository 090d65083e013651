"""CUDA graphs for decoding: a step is launched as a whole.

`replay_steps(model)` replaces `model.step`. For one new token of each sequence it replays a
recorded step (`step_graph.py`); everything else runs as before. Searches need not know of it: the
decode state stays as it is, but its keys and values move into the tensors of a graph, and back out
when it grows or is reordered. A graph whose state is gone serves the next search.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import nn

from headway.attention import KeyValueCache
from headway.base.errors import HeadwayWarning, UsageError, is_out_of_memory
from headway.base.shapes import Float, Int, Tensor
from headway.blocks import Decoder, DecoderOnly, DecoderState
from headway.models import Translator
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast.cache import ALIGNED, FastCache
from headway.transforms.recorder import CudaRecorder, Recorder, first_line, refusal_of
from headway.transforms.static_memory import Sources, sources_of
from headway.transforms.step_graph import Shape, StepGraph
from headway.transforms.tracing import tracing

M = TypeVar("M", bound=nn.Module)

SMALLEST = 2 * ALIGNED
"""Capacity of the smallest graphs, in tokens of a sequence; others have a power of two times it."""
MOST_GRAPHS = 24
PART = 0.5
"""Part of the memory that is free, or that graphs of the model have, for the keys and values of all
graphs of a model. While a batch grows, they are in memory up to two and a half times."""


def can_replay(model: nn.Module) -> bool:
    """Whether the model has a Transformer decoder, whose steps `replay_steps` records."""
    return isinstance(getattr(model, "decoder", None), (Decoder, DecoderOnly))


def capacity_for(tokens: int, smallest: int = SMALLEST) -> int:
    """Return the capacity of graphs, in tokens of a sequence, that have room for this number."""
    return _doubled(smallest, tokens)


def replay_steps(
    model: M, *, recorder: type[Recorder] = CudaRecorder, smallest: int = SMALLEST
) -> M:
    """Let a language model or a Transformer decoder of a source decode by CUDA graphs, in place;
    return the model.

    Decode states that are started afterwards use them, on a CUDA device, without gradients, and
    while no hook is registered; on other devices nothing changes. The first steps record graphs,
    as do longer texts and larger batches later on. If a step cannot be recorded, as one that reads
    a number from the device, a HeadwayWarning names the reason, and the model decodes without
    graphs. Parameters may change their values but not their
    memory while a text is generated. Applying it twice is the same as once. smallest: capacity of
    the smallest graph. UsageError if the decoder is no Transformer.
    """
    if not can_replay(model):
        raise UsageError(
            f"a {type(model).__name__} cannot decode by CUDA graphs",
            hint="replay_steps is for language models and models with a Transformer decoder",
        )
    decoder = model.get_submodule("decoder")
    assert isinstance(decoder, Decoder | DecoderOnly)
    if decoder.cache_type is KeyValueCache:
        decoder.cache_type = FastCache
    vars(model)["step"] = ReplayedSteps(model, recorder, smallest)  # no module of its own
    return model


class ReplayedSteps:
    """`model.step` by graphs. A copy of the model records its own."""

    def __init__(self, model: nn.Module, recorder: type[Recorder], smallest: int) -> None:
        self.model, self.recorder, self.smallest = model, recorder, smallest
        self.graphs: list[StepGraph] = []  # the one that was used last is the last
        self._built_of: list[tuple[int, int]] = []
        self._hooks: list[Mapping[int, object]] = []
        self._is_refused = False  # whether the step of this model cannot be recorded
        self._most_bytes = math.inf  # of all graphs, since memory did not suffice for more
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, object]) -> ReplayedSteps:
        return ReplayedSteps(deepcopy(self.model, memo), self.recorder, self.smallest)

    def __call__(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """Return the logits after each of T new tokens, and the next state."""
        if self._is_replayable(tokens, state):
            with self._lock:
                graph = self._graph_of(state)
                if graph is not None:
                    return graph.step(tokens, state), state
        return self._plain_step(tokens, state)

    def _plain_step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        model_class: Any = type(self.model)
        logits, state = model_class.step(self.model, tokens, state)
        return logits, state

    def _is_replayable(self, tokens: Tensor, state: DecoderState) -> bool:
        """Whether the step is one that graphs compute. The plain step has the error of a text that
        is too long."""
        longest = _most_tokens(self.model)
        lengths, device = state.lengths, tokens.device
        return (
            bool(lengths)
            and tokens.shape == (len(lengths), 1)
            and device.type == self.recorder.device_type
            and not (torch.is_grad_enabled() or self.model.training)
            and not tracing(tokens)
            and (longest is None or max(lengths) < longest)
            and isinstance(state.cache, FastCache)
            and state.cache.is_begun
        )

    def _graph_of(self, state: DecoderState) -> StepGraph | None:
        """Return the graph that the state owns, which is another one if it has grown.

        None if a hook is registered, which no graph would call, if the step of the model cannot be
        recorded, or if there is no room.
        """
        own = next((graph for graph in self.graphs if graph.belongs_to(state)), None)
        autocast = autocast_dtype(self.recorder.device_type)
        graph = own if own is not None and own.fits(state, autocast) else None
        if graph is None:
            self._look_at_model()
        if self._is_refused or any(self._hooks):
            return None
        if graph is None:
            shape = self._shape_for(state, autocast)
            graph = self._free_graph(shape) or self._recorded(shape, state, own)
            if graph is None:
                return None
            graph.adopt(state)
            if own is not None:
                own.release()
        if graph in self.graphs:
            self.graphs.remove(graph)
        self.graphs.append(graph)
        return graph

    def _look_at_model(self) -> None:
        """Drop all graphs if the model has other modules or memory than they were recorded with."""
        modules = list(self.model.modules())
        tensors = [*self.model.parameters(), *self.model.buffers()]
        built_of = [(id(module), id(type(module))) for module in modules]
        built_of += [(id(tensor), tensor.data_ptr()) for tensor in tensors]
        if built_of != self._built_of:
            self.graphs.clear()
            self._built_of = built_of
            self._is_refused, self._most_bytes = False, math.inf
            self._hooks = [m._forward_hooks for m in modules]
            self._hooks += [m._forward_pre_hooks for m in modules]

    def _shape_for(self, state: DecoderState, autocast: torch.dtype | None) -> Shape:
        """Return the shape of a graph with room for one more token of each sequence."""
        capacity = capacity_for(max(state.lengths) + 1, self.smallest)
        if state.memory is None:
            return Shape(_doubled(1, len(state.lengths)), capacity, autocast)
        sentences, share, length, is_regular = sources_of(state.memory)
        share = share if is_regular else _doubled(1, share)
        length = capacity_for(length, self.smallest)
        sources = Sources(_doubled(1, sentences), share, length, is_regular)
        rows = sources.sentences * share if is_regular else _doubled(1, len(state.lengths))
        return Shape(rows, capacity, autocast, sources)

    def _free_graph(self, shape: Shape) -> StepGraph | None:
        free = (graph for graph in self.graphs if graph.is_free and graph.shape == shape)
        return next(free, None)

    def _recorded(
        self, shape: Shape, state: DecoderState, own: StepGraph | None
    ) -> StepGraph | None:
        """Return a new graph, for which free ones are dropped if need be; None if there is no room,
        or after a warning if the step cannot be recorded.

        own: the graph that the state leaves. It may be dropped, too: the state keeps its tensors.
        """
        device = next(self.model.parameters()).device
        num_bytes = shape.num_bytes(state)
        if not self._make_room(num_bytes, own, device):
            return None
        try:
            return StepGraph(self._plain_step, state, shape, self.recorder(device))
        except Exception as error:
            no_memory = is_out_of_memory(refusal_of(error))
            reason = first_line(refusal_of(error))
        if no_memory:
            self._most_bytes = (self._used_bytes + num_bytes) / 2
            what = f"there is no memory for a CUDA graph of {shape.rows} sequences of "
            what += f"{shape.capacity} tokens, so that these decode"
        else:
            self._is_refused = True
            self.graphs.clear()
            what = "a step of this model cannot be recorded as a CUDA graph, so that it decodes"
        message = f"{what} without graphs, which is slower: {reason}"
        warnings.warn(message, HeadwayWarning, stacklevel=2)
        return None

    def _make_room(self, num_bytes: int, own: StepGraph | None, device: torch.device) -> bool:
        """Drop graphs until there is room for another one of this size; return whether there is."""
        free = self.recorder.free_bytes(device)
        most = min(PART * (free + self._used_bytes), self._most_bytes)
        spare = [] if num_bytes > most else [graph for graph in self.graphs if graph.is_free]
        spare += [] if own is None else [own]
        while spare and not self._has_room(num_bytes, most):
            self.graphs.remove(spare.pop(0))
        return self._has_room(num_bytes, most)

    def _has_room(self, num_bytes: int, most: float) -> bool:
        return len(self.graphs) < MOST_GRAPHS and self._used_bytes + num_bytes <= most

    @property
    def _used_bytes(self) -> int:
        return sum(graph.num_bytes for graph in self.graphs)


def _most_tokens(model: Any) -> int | None:
    """Return the maximum number of tokens of a sequence; None if there is no limit."""
    longest: int | None = model.max_target if isinstance(model, Translator) else model.max_length
    return longest


def _doubled(size: int, at_least: int) -> int:
    """Return the first of size, 2 size, 4 size, ... that is at least this number."""
    while size < at_least:
        size *= 2
    return size
