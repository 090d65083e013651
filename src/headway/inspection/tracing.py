"""What modules were given and gave, in one run: the walk's numbers are these and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from headway.attention import AttentionPositions, MultiHeadAttention
from headway.blocks import DecoderBlock, EncoderBlock
from headway.inspection.block_stacks import Stack
from headway.shapes import Tensor


@dataclass
class Trace:
    """Calls of each module that was watched, in order."""

    calls: dict[nn.Module, list[tuple[tuple[Any, ...], Tensor]]] = field(default_factory=dict)
    turned: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def given(self, module: nn.Module, call: int = 0) -> Any:
        """The first thing that went in."""
        return self.calls[module][call][0][0]

    def all_given(self, module: nn.Module, call: int = 0) -> tuple[Any, ...]:
        """All that went in."""
        return self.calls[module][call][0]

    def gave(self, module: nn.Module, call: int = 0) -> Tensor:
        """What came out."""
        return self.calls[module][call][1]

    def before_turning(self, x: Tensor) -> Tensor | None:
        """Queries or keys as they were before positions turned them into x; None if none did."""
        return next((before for before, after in self.turned if after is x), None)


def call_of(stack: Stack, layer: int) -> int:
    """Which call of its block a layer is: layers may share one."""
    block = stack.blocks[layer]
    return sum(other is block for other in list(stack.blocks)[:layer])


def watched_modules(model: nn.Module) -> list[nn.Module]:
    """All that may be watched without changing a bit. Not the projections that are made in one
    product (queries, keys and values; gate and expansion): a watched layer is computed alone."""
    joined = {"query", "key", "value", "gate", "expand"}
    return [
        module
        for name, module in model.named_modules()
        if not (name.rpartition(".")[2] in joined and isinstance(module, nn.Linear))
    ]


@contextmanager
def tracing(model: nn.Module) -> Iterator[Trace]:
    """Keep what goes into and comes out of every module of a run inside the `with` block, and what
    positions do to queries and keys."""
    trace = Trace()

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor):
            trace.calls.setdefault(module, []).append((inputs, output))

    with ExitStack() as stack:
        for module in watched_modules(model):
            handle = module.register_forward_hook(keep)
            stack.callback(handle.remove)
        for positions in {m for m in model.modules() if isinstance(m, AttentionPositions)}:
            stack.enter_context(_turning(positions, trace))
        yield trace


@contextmanager
def _turning(positions: AttentionPositions, trace: Trace) -> Iterator[None]:
    rotate: Callable[..., Tensor] = positions.rotate

    def watched(x: Tensor, where: Tensor) -> Tensor:
        turned = rotate(x, where)
        if turned is not x:
            trace.turned.append((x, turned))
        return turned

    positions.__dict__["rotate"] = watched
    try:
        yield
    finally:
        del positions.__dict__["rotate"]


def attention_in(block: nn.Module, part: str) -> tuple[MultiHeadAttention, nn.Module]:
    """The attention of a block that is walked through, and the residual around it."""
    if part == "cross":
        assert isinstance(block, DecoderBlock)
        return block.cross, _module(block.around_cross)
    assert isinstance(block, EncoderBlock | DecoderBlock)
    return block.attention, _module(block.around_attention)


def _module(residual: Any) -> nn.Module:
    assert isinstance(residual, nn.Module)
    return residual


@torch.no_grad()
def traced(model: nn.Module, run: Callable[[], Tensor]) -> tuple[Trace, Tensor]:
    """One run, watched, and what it gave."""
    with tracing(model) as trace:
        given = run()
    return trace, given


def stream_of(trace: Trace, stack: Stack) -> list[Tensor]:
    """What enters the first block, and what each layer made of it."""
    layers: Sequence[nn.Module] = list(stack.blocks)
    made = [trace.gave(block, call_of(stack, i)) for i, block in enumerate(layers)]
    return [trace.given(stack), *made]
