"""Parallel block: y = x + attention(norm(x)) + feedforward(norm'(x)).

Both sublayers read the same x, so that neither waits for the other: on many devices their products
are one. In a serial block the feed-forward network reads what attention has added. norm and norm'
may be one (GPT-J, Phi, Cohere) or two (GPT-NeoX).

>>> import torch
>>> from headway.attention import Mask, MultiHeadAttention, Step
>>> from headway.blocks import FeedForward, LayerNorm, ParallelBlock, PreNorm
>>> attention, network = MultiHeadAttention(4, num_heads=2), FeedForward(4, 8)
>>> block = ParallelBlock(attention, network, lambda: PreNorm(LayerNorm(4)))
>>> words, mask = torch.randn(1, 3, 4), Mask(causal=True)  # B T D: three words
>>> normed = LayerNorm(4)(words)
>>> y = words + attention(normed, normed, mask) + network(normed)
>>> torch.allclose(block(words, Step.whole(3, mask, words.device)), y, atol=1e-5)
True
"""

from headway.attention import LayerCache, Step
from headway.base.shapes import Float, Tensor
from headway.blocks.decoder_only import DecoderOnlyBlock


class ParallelBlock(DecoderOnlyBlock):
    """x + attention(norm(x)) + feedforward(norm'(x)). Wang and Komatsuzaki 2021 (GPT-J).

    The residual connections are those of a serial block, of x both: x is taken from their sum once.
    """

    def forward(
        self, x: Float[Tensor, "B S D"], step: Step, cache: LayerCache | None = None
    ) -> Float[Tensor, "B S D"]:
        attended = self.around_attention(x, lambda y: self.attention(y, y, step.mask, step, cache))
        return attended + (self.around_feedforward(x, self.feedforward) - x)

    def step(
        self, x: Float[Tensor, "N T D"], step: Step, cache: LayerCache
    ) -> Float[Tensor, "N T D"]:
        return ParallelBlock.forward(self, x, step, cache)
