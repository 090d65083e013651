"""The encoder: every token looks at every token."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.blocks.residual import Residual
from headway.shapes import Float, Tensor


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, each inside a residual. Vaswani et al. 2017, figure 1."""

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

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        x = self.around_attention(x, lambda y: self.attention(y, y, mask))
        return self.around_feedforward(x, self.feedforward)


class FeedForwardBlock(nn.Module):
    """A feed-forward layer inside a residual: each position by itself."""

    def __init__(self, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.feedforward = feedforward
        self.around_feedforward = residual()

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        return self.around_feedforward(x, self.feedforward)


class Encoder(nn.Module):
    """L blocks of one kind, then `norm` (the last norm of a pre-norm stack, else Identity).

    Of `FeedForwardBlock`s it is a position-wise encoder: memory[s] knows word s and its place, and
    nothing of the other words.
    """

    def __init__(self, blocks: Iterable[EncoderBlock | FeedForwardBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        for block in self.blocks:
            x = block(x, mask)
        memory: Tensor = self.norm(x)
        return memory
