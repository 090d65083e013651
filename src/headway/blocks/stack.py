"""Stack: h_L = norm(block_L(... block_1(x))), the blocks of an encoder or a decoder.

The blocks have the same shape and weights of their own. What all of them share in a pass, the step,
is computed once and passed to each.

>>> import torch
>>> from headway.attention import Mask, MultiHeadAttention, Rotary
>>> from headway.blocks import EncoderBlock, FeedForward, LayerNorm, PreNorm, Stack
>>> rotary = Rotary(head_dim=2)  # one object for all blocks
>>> def block():
...     attention = MultiHeadAttention(4, num_heads=2, positions=rotary)
...     return EncoderBlock(attention, FeedForward(4, 8), lambda: PreNorm(LayerNorm(4)))
>>> stack = Stack([block(), block()], LayerNorm(4))
>>> words = torch.randn(1, 3, 4)  # B T D: three words
>>> step = stack.whole(words, Mask(causal=True))
>>> step.scheme is rotary, step.cos_sin[0].shape  # cosines for both blocks, 1 1 T K/2
(True, torch.Size([1, 1, 3, 1]))
"""

from collections.abc import Iterable

from torch import nn

from headway.attention import Mask, Step
from headway.base.shapes import Float, Tensor


class Stack(nn.Module):
    """L blocks, then `norm`: the last norm of a pre-norm stack, otherwise Identity."""

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def whole(self, x: Float[Tensor, "B T D"], mask: Mask) -> Step:
        """Return the step of all T tokens of sequences."""
        return self.placed(Step.whole(x.shape[1], mask, x.device), x)

    def placed(self, step: Step, x: Float[Tensor, "N T D"]) -> Step:
        """Return the step with what the position scheme of the blocks computes for all of them."""
        for block in self.blocks:
            attention = getattr(block, "attention", None)
            return step.placed(getattr(attention, "positions", None), x.dtype)
        return step
