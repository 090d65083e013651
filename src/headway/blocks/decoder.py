"""The decoder: every token looks back at the tokens before it, and across at the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from torch import nn

from headway.attention import KeyValueCache, Mask, MultiHeadAttention
from headway.blocks.residual import Residual
from headway.blocks.state import DecoderState, Memory
from headway.shapes import Bool, Float, Tensor

CAUSAL = Mask(causal=True)


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual.

    Vaswani et al. 2017, figure 1.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross: MultiHeadAttention,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = residual()
        self.cross = cross
        self.around_cross = residual()
        self.feedforward = feedforward
        self.around_feedforward = residual()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S E"],
        memory_mask: Mask,
        mask: Mask,
    ) -> Float[Tensor, "B T D"]:
        x = self.around_attention(x, lambda y: self.attention(y, y, mask))
        x = self.around_cross(x, lambda y: self.cross(y, memory, memory_mask))
        return self.around_feedforward(x, self.feedforward)

    def step(
        self, x: Float[Tensor, "N T D"], cache: KeyValueCache, memory: Memory, layer: int
    ) -> Float[Tensor, "N T D"]:
        """The same for T new tokens, with what came before in `cache`."""
        x = self.around_attention(x, lambda y: self.attention(y, y, CAUSAL, cache=cache))
        x = self.around_cross(x, lambda y: self.cross(y, memory.layers[layer], memory.mask))
        return self.around_feedforward(x, self.feedforward)


class Decoder(nn.Module):
    """L blocks of one kind, then `norm` (the last norm of a pre-norm stack, else Identity)."""

    def __init__(self, blocks: Iterable[DecoderBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S E"], memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """All target positions at once (teacher forcing). Padding stands at the right, where the
        causal mask already hides it from every real token."""
        mask = Mask(causal=True)
        for block in self.blocks:
            x = block(x, memory, memory_mask, mask)
        hidden: Tensor = self.norm(x)
        return hidden

    def start(
        self, memory: Float[Tensor, "B S E"], keys: Bool[Tensor, "B S"] | None
    ) -> DecoderState:
        """A fresh state: the source's keys and values of every layer, and empty caches."""
        num_rows = memory.shape[0]
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        layers = [block.cross.keys_values(memory) for block in blocks]
        caches = [block.attention.cache_type(num_rows) for block in blocks]
        return DecoderState(caches, Memory(layers, keys, list(range(num_rows))))

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        """T new positions of each row; `state` is updated in place."""
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        for layer, (block, cache) in enumerate(zip(blocks, state.caches, strict=True)):
            x = block.step(x, cache, state.memory, layer)
        hidden: Tensor = self.norm(x)
        return hidden
