"""Fast twin of dropout: random masks at a tenth of the cost of torch's on a CPU."""

from typing import Any

import torch
import torch.nn.functional as F

from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.dropout import Dropout
from headway.transforms.tracing import tracing

LEVELS = 1 << 16  # the drop probability is rounded to a multiple of 1/65,536


class FastDropout(Dropout):
    """Dropout whose mask takes 16 random bits for each element.

    torch draws one random number for each element on one core; one 64-bit number serves four
    elements here. It comes from the same default generator, so seeds and checkpoints work as
    always. E[y] = x exactly: the scale uses the rounded p. On a GPU, and while
    `tracing`, torch's own dropout is used.
    """

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        threshold = round(self.p * LEVELS)
        if not self.training or threshold == 0:
            return x
        if x.device.type != "cpu" or tracing(x):
            return F.dropout(x, self.p, training=True)
        keep = keep_mask(x.shape, threshold)
        return _Masked.apply(x, keep, threshold)  # type: ignore[no-untyped-call]


def keep_mask(shape: torch.Size, threshold: int) -> Bool[Tensor, "..."]:
    """Return True with probability 1 - threshold / 65,536, independently for each element."""
    num_elements = shape.numel()
    bits = torch.empty((num_elements + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    halves = bits.view(torch.int16)[:num_elements].view(shape)
    return halves >= threshold - LEVELS // 2  # int16 runs from -32,768


class _Masked(torch.autograd.Function):
    """y = x * keep * scale. Stores one byte for each element instead of a float mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, threshold: int) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = LEVELS / (LEVELS - threshold)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None
