"""Freezing: the first layers of a model keep their weights, the others are trained."""

from typing import TypeVar

from torch import nn

from headway.base.errors import UsageError

M = TypeVar("M", bound=nn.Module)


def freeze(model: M, layers: int) -> M:
    """Exclude the first blocks and what precedes them (embeddings) from training, in place.

    Gradients are computed for the later blocks only, which saves time and memory. UsageError if the
    model has fewer blocks.
    """
    depth, num_blocks = depths(model)
    if not 0 <= layers <= num_blocks or not num_blocks:
        raise UsageError(
            f"{layers} blocks cannot be frozen: the model has {num_blocks} with own weights"
        )
    for name, parameter in model.named_parameters():
        if depth[name] <= layers:
            parameter.requires_grad_(False)
    return model


def depths(model: nn.Module) -> tuple[dict[str, int], int]:
    """Return the depth of each parameter by name, and the number of blocks L.

    Parameters of block l have depth l from 1 to L, those before the first block (embeddings) 0, and
    those after the last (a pooler, a head) L + 1. Blocks that share their weights count as one. L
    is 0 for a model that is no stack of blocks, or more than one stack.
    """
    names = [name for name, _ in model.named_parameters()]
    parts = {name: f".{name}".split(".blocks.", 1) for name in names}
    within = {name: part for name, part in parts.items() if len(part) == 2}
    if len({stack for stack, _ in within.values()}) != 1:
        return dict.fromkeys(names, 0), 0
    numbers = {name: int(inner.split(".", 1)[0]) for name, (_, inner) in within.items()}
    order = {number: level for level, number in enumerate(sorted(set(numbers.values())), start=1)}
    depth, outside = {}, 0
    for name in names:
        depth[name] = order[numbers[name]] if name in within else outside
        outside = len(order) + 1 if name in within else outside
    return depth, len(order)
