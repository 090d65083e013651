"""How much each sublayer changes the residual stream: |y - x| / |x| for each token.

Attention and feed-forward layers add their outputs to the vectors of the tokens. The relative size
of these updates shows where in the model, and for which tokens, something happens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from headway.base.shapes import Float, Tensor
from headway.inspection.block_stacks import Stack, stacks_of
from headway.inspection.tracing import call_of

Updates = dict[str, list[dict[str, list[float]]]]
"""Name of a stack -> for each layer: name of a sublayer -> a number per token."""

SUBLAYERS = ("attention", "cross", "feedforward")


def relative_update(x: Float[Tensor, "T D"], y: Float[Tensor, "T D"]) -> Float[Tensor, " T"]:
    """Return |y - x| / |x| for each token; 0 where x and y are 0."""
    change, size = (y - x).float().norm(dim=-1), x.float().norm(dim=-1)
    ratio: Tensor = (change / size).nan_to_num(0.0, posinf=0.0)
    return ratio


@contextmanager
def recording_updates(model: nn.Module) -> Iterator[Callable[[], Updates]]:
    """Record the updates of a forward pass of a batch of one inside the `with` block.

    Yields a function that returns them after the forward pass; empty for a recurrent network. Only
    residual connections that are modules named around_attention, around_cross and
    around_feedforward are recorded.
    """
    calls: dict[nn.Module, list[list[float]]] = {}

    def record(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        update = relative_update(inputs[0][0], output[0])
        calls.setdefault(module, []).append(update.tolist())

    stacks = stacks_of(model)
    with ExitStack() as stack:
        for module in dict.fromkeys(
            connection
            for blocks in stacks.values()
            for block in blocks.blocks
            for connection in _connections(block).values()
        ):
            stack.callback(module.register_forward_hook(record).remove)
        yield lambda: {
            name: [_of_layer(blocks, layer, calls) for layer in range(len(blocks.blocks))]
            for name, blocks in stacks.items()
        }


def _connections(block: nn.Module) -> dict[str, nn.Module]:
    """Return the residual connections of a block by the name of their sublayer."""
    named = {name: getattr(block, f"around_{name}", None) for name in SUBLAYERS}
    return {name: module for name, module in named.items() if isinstance(module, nn.Module)}


def _of_layer(
    stack: Stack, layer: int, calls: dict[nn.Module, list[list[float]]]
) -> dict[str, list[float]]:
    call = call_of(stack, layer)
    connections: Sequence[tuple[str, nn.Module]] = [*_connections(stack.blocks[layer]).items()]
    return {
        name: calls[module][call]
        for name, module in connections
        if len(calls.get(module, ())) > call
    }
