"""Activation checkpointing: a block keeps its inputs only, and computes the rest again.

Activations of the forward pass take most of the memory of training. L blocks that recompute hold L
inputs and the activations of one block, for about a third more time.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.transforms.stacks import stacked_blocks

M = TypeVar("M", bound=nn.Module)


class Recomputed:
    """The forward pass of a block, which keeps its inputs only.

    In the backward pass it runs again, with the same random numbers, so that dropout drops the same
    elements. Without gradients it is the plain forward pass. Chen et al. 2016.
    """

    def __init__(self, forward: Callable[..., Tensor]) -> None:
        self.forward = forward

    def __call__(self, *inputs: object) -> Tensor:
        if not torch.is_grad_enabled():
            return self.forward(*inputs)
        return checkpoint(self.forward, *inputs, use_reentrant=False)


def recompute(model: M) -> M:
    """Make every block of the model's stacks recompute its activations, in place.

    Only `forward` of each block changes; applying it twice is the same as once. UsageError if the
    model has no blocks of attention: recurrent networks have none.
    """
    blocks = stacked_blocks(model)
    if not blocks:
        raise UsageError("nothing to recompute: this model has no blocks of attention")
    for block in blocks:
        if not isinstance(block.forward, Recomputed):
            block.forward = Recomputed(block.forward)
    return model


def check_keeps_activations(model: nn.Module, purpose: str) -> None:
    """Raise UsageError if a block recomputes activations that a loss needs, here for `purpose`.

    Tensors that hooks take from inside a block belong to its first forward pass. The second one,
    without the hooks, stores others for the gradient, and torch fails in the backward pass.
    """
    if torch.is_grad_enabled() and any(
        isinstance(block.forward, Recomputed) for block in stacked_blocks(model)
    ):
        raise UsageError(
            f"{purpose} needs activations from inside the blocks, but the blocks of this "
            f"{type(model).__name__} recompute them",
            hint="do not apply recompute to this model (training.recompute false)",
        )
