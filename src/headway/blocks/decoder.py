"""Decoder: h_t = f(y_1 ... y_t, memory), causal self-attention and cross-attention to the source.

Each token attends to itself and the tokens before it (self-attention), and to the encoder's output,
the memory (cross-attention). As no token depends on a later one, training computes all positions in
one pass, and generation computes one position at a time with the same result.

>>> import torch
>>> from headway.attention import Mask, MultiHeadAttention
>>> from headway.blocks import Decoder, DecoderBlock, FeedForward, LayerNorm, PreNorm
>>> attention, cross = MultiHeadAttention(4, num_heads=2), MultiHeadAttention(4, num_heads=2)
>>> block = DecoderBlock(attention, cross, FeedForward(4, 8), lambda: PreNorm(LayerNorm(4)))
>>> decoder = Decoder([block], LayerNorm(4))
>>> memory, words = torch.randn(1, 5, 4), torch.randn(1, 3, 4)  # five source, three target words
>>> changed = words.clone()
>>> changed[0, 2] = torch.randn(4)  # another third word: the first two outputs stay the same
>>> (decoder(words, memory, Mask()) != decoder(changed, memory, Mask())).any(-1)
tensor([[False, False,  True]])
"""

from collections.abc import Callable, Iterable
from typing import cast

from torch import nn

from headway.attention import KeyValueCache, KeyValues, LayerCache, Mask, MultiHeadAttention, Step
from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.residual import Residual
from headway.blocks.stack import Stack
from headway.blocks.state import DecoderState, Memory


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each inside a residual connection.

    residual: makes the residual connection around each of the three sublayers. Vaswani et al. 2017,
    section 3.1 and figure 1, right half.
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
        x: Float[Tensor, "N T D"],
        memory: Float[Tensor, "N S E"] | KeyValues,
        memory_mask: Mask,
        step: Step,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "N T D"]:
        x = self.around_attention(x, lambda y: self.attention(y, y, step.mask, step, cache))
        x = self.around_cross(x, lambda y: self.cross(y, memory, memory_mask))
        return self.around_feedforward(x, self.feedforward)

    def step(
        self,
        x: Float[Tensor, "N T D"],
        source: KeyValues,
        source_mask: Mask,
        step: Step,
        cache: LayerCache,
    ) -> Float[Tensor, "N T D"]:
        """Compute the output of T new tokens; `cache` has the keys and values of earlier ones."""
        # not `self`, which may be compiled for whole sequences, or have hooks
        return DecoderBlock.forward(self, x, source, source_mask, step, cache)


class Decoder(Stack):
    """A stack of decoder blocks."""

    cache_type = KeyValueCache

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S E"], memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """Compute all target positions at once (teacher forcing).

        Padding must be at the right, where the causal mask already hides it from real tokens.
        """
        step = self.whole(x, Mask(causal=True))
        for block in self.blocks:
            x = block(x, memory, memory_mask, step)
        return self.norm(x)

    def start(
        self, memory: Float[Tensor, "B S E"], keys: Bool[Tensor, "B S"] | None
    ) -> DecoderState:
        """Return a new decode state: an empty cache, and the source's keys and values of every
        layer.

        keys: True where a source position is a real token; None if nothing is padded.
        """
        num_rows = memory.shape[0]
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        layers = [block.cross.keys_values(memory) for block in blocks]
        cache = self.cache_type(num_rows, len(layers))
        return DecoderState(cache, Memory(layers, keys, list(range(num_rows))))

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        """Decode T new tokens of each sequence; `state` is updated in place."""
        cache, memory = state.cache, state.memory
        assert memory is not None
        step, mask = self.placed(cache.step(x.shape[1], x.device), x), memory.mask
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        for block, source, layer in zip(blocks, memory.layers, cache.layers, strict=True):
            x = block.step(x, source, mask, step, layer)
        cache.advance(x.shape[1])
        return self.norm(x)
