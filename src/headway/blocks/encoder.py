"""Encoder: memory = norm(block_L(... block_1(x))), where every token attends to every token.

A block is self-attention followed by a feed-forward network, each inside a residual connection. The
output, the memory, has one vector for each token, which depends on the whole sequence.

>>> import torch
>>> from headway.attention import LayerCache, Mask, MultiHeadAttention, Step
>>> from headway.blocks import Encoder, EncoderBlock, FeedForward, LayerNorm, PreNorm
>>> def residual():
...     return PreNorm(LayerNorm(4))
>>> block = EncoderBlock(MultiHeadAttention(4, num_heads=2), FeedForward(4, 8), residual)
>>> encoder = Encoder([block], LayerNorm(4))
>>> words = torch.randn(1, 3, 4)  # B S D: three words
>>> changed = words.clone()
>>> changed[0, 2] = torch.randn(4)  # another third word
>>> (encoder(words, Mask()) != encoder(changed, Mask())).any(-1)  # every vector depends on it
tensor([[True, True, True]])
"""

from collections.abc import Callable

from torch import nn

from headway.attention import LayerCache, Mask, MultiHeadAttention, Step
from headway.base.shapes import Float, Tensor
from headway.blocks.residual import Residual
from headway.blocks.stack import Stack


class EncoderBlock(nn.Module):
    """x = x + attention(norm(x)), then x = x + feedforward(norm(x)), or with post-norm.

    residual: makes the residual connection around each of the two sublayers. Vaswani et al. 2017,
    section 3.1 and figure 1, left half.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = residual()
        self.feedforward = feedforward
        self.around_feedforward = residual()

    def forward(
        self, x: Float[Tensor, "B S D"], step: Step, cache: LayerCache | None = None
    ) -> Float[Tensor, "B S D"]:
        x = self.around_attention(x, lambda y: self.attention(y, y, step.mask, step, cache))
        return self.around_feedforward(x, self.feedforward)


class FeedForwardBlock(nn.Module):
    """A feed-forward layer inside a residual connection; no position depends on another."""

    def __init__(self, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.feedforward = feedforward
        self.around_feedforward = residual()

    def forward(self, x: Float[Tensor, "B S D"], step: Step) -> Float[Tensor, "B S D"]:
        return self.around_feedforward(x, self.feedforward)


class Encoder(Stack):
    """A stack of encoder blocks.

    With `FeedForwardBlock`s it is a position-wise encoder: memory[s] depends on word s and its
    position only.
    """

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        step = self.whole(x, mask)
        for block in self.blocks:
            x = block(x, step)
        return self.norm(x)
