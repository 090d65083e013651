"""Recording of the inputs and outputs of all modules in one forward pass, for the walkthrough."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from headway.attention import AttentionPositions, MultiHeadAttention
from headway.attention.relative import CosSin
from headway.base.shapes import Tensor
from headway.blocks import DecoderBlock, EncoderBlock
from headway.inspection.block_stacks import Stack


@dataclass
class Trace:
    """The recorded calls (inputs, output) of each module, in order.

    turned: queries or keys before and after a rotation by their positions.
    """

    calls: dict[nn.Module, list[tuple[tuple[object, ...], Tensor]]] = field(default_factory=dict)
    turned: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def input_of(self, module: nn.Module, call: int = 0) -> Any:
        """Return the first input."""
        return self.calls[module][call][0][0]

    def all_inputs(self, module: nn.Module, call: int = 0) -> tuple[Any, ...]:
        """Return all inputs."""
        return self.calls[module][call][0]

    def output_of(self, module: nn.Module, call: int = 0) -> Tensor:
        """Return the output."""
        return self.calls[module][call][1]

    def before_rotation(self, x: Tensor) -> Tensor | None:
        """Return the queries or keys that were rotated to x; None if x was not rotated."""
        return next((before for before, after in self.turned if after is x), None)


def call_of(stack: Stack, layer: int) -> int:
    """Return the number of the call of the block of a layer, as several layers may share one
    block."""
    block = stack.blocks[layer]
    return sum(earlier is block for earlier in list(stack.blocks)[:layer])


def recorded_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that can have hooks without any change of the result.

    Left out are projections that are computed in one product (queries, keys and values; gate and
    expansion), because a layer with a hook is computed separately.
    """
    joined = {"query", "key", "value", "gate", "expand"}
    return [
        module
        for name, module in model.named_modules()
        if not (name.rpartition(".")[2] in joined and isinstance(module, nn.Linear))
    ]


@contextmanager
def tracing(model: nn.Module) -> Iterator[Trace]:
    """Record inputs and outputs of every module inside the `with` block, and queries and keys
    before and after rotation by their positions."""
    trace = Trace()

    def keep(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if isinstance(output, Tensor):
            trace.calls.setdefault(module, []).append((inputs, output))

    with ExitStack() as stack:
        for module in recorded_modules(model):
            handle = module.register_forward_hook(keep)
            stack.callback(handle.remove)
        for positions in {m for m in model.modules() if isinstance(m, AttentionPositions)}:
            stack.enter_context(_turning(positions, trace))
        yield trace


@contextmanager
def _turning(positions: AttentionPositions, trace: Trace) -> Iterator[None]:
    rotate: Callable[..., Tensor] = positions.rotate

    def recorded(x: Tensor, where: Tensor, cos_sin: CosSin | None = None) -> Tensor:
        rotated = rotate(x, where, cos_sin)
        if rotated is not x:
            trace.turned.append((x, rotated))
        return rotated

    positions.__dict__["rotate"] = recorded
    try:
        yield
    finally:
        del positions.__dict__["rotate"]


def attention_in(block: nn.Module, part: str) -> tuple[MultiHeadAttention, nn.Module]:
    """Return the attention module of a block, and the residual connection around it."""
    if part == "cross":
        assert isinstance(block, DecoderBlock)
        return block.cross, _module(block.around_cross)
    assert isinstance(block, EncoderBlock | DecoderBlock)
    return block.attention, _module(block.around_attention)


def _module(residual: object) -> nn.Module:
    assert isinstance(residual, nn.Module)
    return residual


@torch.no_grad()
def traced(model: nn.Module, run: Callable[[], Tensor]) -> tuple[Trace, Tensor]:
    """Run a forward pass; return the recorded calls and the output."""
    with tracing(model) as trace:
        output = run()
    return trace, output


def stream_of(trace: Trace, stack: Stack) -> list[Tensor]:
    """Return the residual stream: the input of the first block, and the output of each layer."""
    layers: Sequence[nn.Module] = list(stack.blocks)
    outputs = [trace.output_of(block, call_of(stack, i)) for i, block in enumerate(layers)]
    return [trace.input_of(stack), *outputs]
