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

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from torch import nn

from headway.attention import Documents, KeyValueCache, Mask, Past
from headway.base.shapes import Float, Tensor
from headway.blocks.encoder import EncoderBlock

CAUSAL = Mask(causal=True)


class DecoderOnlyBlock(EncoderBlock):
    """Causal self-attention, then feed-forward, each inside a residual connection.

    It is an encoder block; only the causal mask makes it a decoder block. Liu et al. 2018, section
    4.2.3; Radford et al. 2018 (GPT), section 3.1.
    """

    def step(self, x: Float[Tensor, "N T D"], cache: KeyValueCache) -> Float[Tensor, "N T D"]:
        """Compute the output of T new tokens; `cache` has the keys and values of earlier ones."""
        x = self.around_attention(x, lambda y: self.attention(y, y, CAUSAL, cache=cache))
        return self.around_feedforward(x, self.feedforward)


@dataclass
class DecoderOnlyState:
    """Decode state: the cached keys and values of every layer."""

    caches: list[KeyValueCache]

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence, including its prompt."""
        return self.caches[0].lengths

    @property
    def past(self) -> Past:
        """The number of tokens of each sequence before the next step, as the caches have it."""
        return self.caches[0].past

    def reorder(self, rows: Sequence[int]) -> DecoderOnlyState:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        for cache in self.caches:
            cache.reorder(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderOnlyState:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        for cache in self.caches:
            cache.rewind(lengths)
        return self

    def admit(self, other: DecoderOnlyState) -> None:
        """Append the sequences of another state of the model, which is not used afterwards."""
        for cache, new in zip(self.caches, other.caches, strict=True):
            cache.admit(new)

    def release(self, row: int) -> None:
        """Remove a sequence; the last one takes its place."""
        for cache in self.caches:
            cache.release(row)


class DecoderOnly(nn.Module):
    """A stack of L blocks, then `norm`: the last norm of a pre-norm stack, otherwise Identity."""

    def __init__(self, blocks: Iterable[DecoderOnlyBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B T D"], documents: Documents | None = None
    ) -> Float[Tensor, "B T D"]:
        """Compute all positions at once.

        Padding must be at the right, where the causal mask already hides it from real tokens.
        documents: the documents of packed sequences; a token attends only to its own document.
        """
        mask = Mask(causal=True, documents=documents)
        for block in self.blocks:
            x = block(x, mask)
        hidden: Tensor = self.norm(x)
        return hidden

    def start(self, num_rows: int) -> DecoderOnlyState:
        """Return a new decode state of `num_rows` sequences without tokens."""
        blocks = cast("Iterable[DecoderOnlyBlock]", self.blocks)
        return DecoderOnlyState([block.attention.cache_type(num_rows) for block in blocks])

    def step(self, x: Float[Tensor, "N T D"], state: DecoderOnlyState) -> Float[Tensor, "N T D"]:
        """Decode T new tokens of each sequence; `state` is updated in place."""
        blocks = cast("Iterable[DecoderOnlyBlock]", self.blocks)
        for block, cache in zip(blocks, state.caches, strict=True):
            x = block.step(x, cache)
        hidden: Tensor = self.norm(x)
        return hidden
