"""Decoder without cross-attention: h_t = f(x_1 ... x_t), the stack of language models.

It is an encoder whose self-attention is causal. While generating, the keys and values of earlier
tokens are kept in a cache, so each step computes the new token only.

>>> import torch
>>> from headway.attention import MultiHeadAttention
>>> from headway.blocks import DecoderOnly, DecoderOnlyBlock, FeedForward, LayerNorm, PreNorm
>>> attention, feedforward = MultiHeadAttention(4, num_heads=2), FeedForward(4, 8)
>>> block = DecoderOnlyBlock(attention, feedforward, lambda: PreNorm(LayerNorm(4)))
>>> decoder = DecoderOnly([block], LayerNorm(4))
>>> words = torch.randn(1, 3, 4)  # B T D: three words
>>> state = decoder.start(num_rows=1)
>>> steps = [decoder.step(word, state) for word in words.split(1, dim=1)]  # word by word
>>> torch.allclose(torch.cat(steps, dim=1), decoder(words), atol=1e-5)  # the same as all at once
True
>>> state.lengths
[3]
"""

from collections.abc import Iterable
from typing import cast

from headway.attention import Documents, KeyValueCache, LayerCache, Mask, Step
from headway.base.shapes import Float, Tensor
from headway.blocks.encoder import EncoderBlock
from headway.blocks.stack import Stack
from headway.blocks.state import DecoderState


class DecoderOnlyBlock(EncoderBlock):
    """Causal self-attention, then feed-forward, each inside a residual connection.

    It is an encoder block; only the causal mask makes it a decoder block. Liu et al. 2018, section
    4.2.3; Radford et al. 2018 (GPT), section 3.1.
    """

    def step(
        self, x: Float[Tensor, "N T D"], step: Step, cache: LayerCache
    ) -> Float[Tensor, "N T D"]:
        """Compute the output of T new tokens; `cache` has the keys and values of earlier ones."""
        # not `self`, which may be compiled for whole sequences, or have hooks
        return EncoderBlock.forward(self, x, step, cache)


class DecoderOnly(Stack):
    """A stack of decoder blocks without cross-attention."""

    cache_type = KeyValueCache

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        documents: Documents | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Compute all positions at once.

        Padding must be at the right, where the causal mask already hides it from real tokens.
        documents: the documents of packed sequences; a token attends only to its own document.
        mask: replaces the causal mask, in a stack that encodes texts instead of continuing them.
        """
        step = self.whole(x, mask or Mask(causal=True, documents=documents))
        for block in self.blocks:
            x = block(x, step)
        return self.norm(x)

    def start(self, num_rows: int) -> DecoderState:
        """Return a new decode state of `num_rows` sequences without tokens."""
        return DecoderState(self.cache_type(num_rows, len(self.blocks)), None)

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        """Decode T new tokens of each sequence; `state` is updated in place."""
        step = self.placed(state.cache.step(x.shape[1], x.device), x)
        blocks = cast("Iterable[DecoderOnlyBlock]", self.blocks)
        for block, cache in zip(blocks, state.cache.layers, strict=True):
            x = block.step(x, step, cache)
        state.cache.advance(x.shape[1])
        return self.norm(x)
