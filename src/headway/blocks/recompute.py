"""Activation checkpointing: a block forgets what it computed and computes it again for its
gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.blocks.encoder import Encoder
from headway.errors import UsageError
from headway.shapes import Tensor

M = TypeVar("M", bound=nn.Module)


class Recomputed:
    """A block's forward pass that keeps its inputs only.

    Going back it runs once more, with the random numbers of the first time, so that dropout drops
    the same. L blocks then hold L inputs and the inside of one block, for about a third more time.
    Chen et al. 2016. Without a gradient to come it is the plain pass.
    """

    def __init__(self, forward: Callable[..., Tensor]) -> None:
        self.forward = forward

    def __call__(self, *inputs: Any) -> Tensor:
        if not torch.is_grad_enabled():
            return self.forward(*inputs)
        out: Tensor = checkpoint(self.forward, *inputs, use_reentrant=False)
        return out


def recompute(model: M) -> M:
    """The same model, every block of its stacks now `Recomputed` (in place; twice is as once).

    Modules, parameters and their names stay; only `forward` of each block is another. UsageError
    if the model has no such blocks, as recurrent networks have none.
    """
    stacks = [m for m in model.modules() if isinstance(m, Encoder | Decoder | DecoderOnly)]
    blocks = [block for stack in stacks for block in stack.blocks]
    if not blocks:
        raise UsageError("nothing to recompute: this model has no blocks of attention")
    for block in blocks:
        if not isinstance(block.forward, Recomputed):
            block.forward = Recomputed(block.forward)
    return model
