"""A decoder that has nothing to look across at: the language models' stack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from torch import nn

from headway.attention import Documents, KeyValueCache, Mask
from headway.blocks.encoder import EncoderBlock
from headway.shapes import Float, Tensor

CAUSAL = Mask(causal=True)


class DecoderOnlyBlock(EncoderBlock):
    """Masked self-attention, then feed-forward, each inside a residual: no cross-attention.

    It is an encoder's block; the causal mask is all that makes it a decoder's. Liu et al. 2018,
    section 4.2.3; Radford et al. 2018 (GPT), section 3.1.
    """

    def step(self, x: Float[Tensor, "N T D"], cache: KeyValueCache) -> Float[Tensor, "N T D"]:
        """The same for T new tokens, with what came before in `cache`."""
        x = self.around_attention(x, lambda y: self.attention(y, y, CAUSAL, cache=cache))
        return self.around_feedforward(x, self.feedforward)


@dataclass
class DecoderOnlyState:
    """What lives through decoding: the keys and values of every layer."""

    caches: list[KeyValueCache]

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row, those of its prompt included."""
        return self.caches[0].lengths

    def reorder(self, rows: Sequence[int]) -> DecoderOnlyState:
        """Row i becomes old row rows[i]; rows may repeat and be dropped."""
        for cache in self.caches:
            cache.reorder(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderOnlyState:
        """Take tokens back: row n keeps its first lengths[n]."""
        for cache in self.caches:
            cache.rewind(lengths)
        return self

    @staticmethod
    def join(states: Sequence[DecoderOnlyState]) -> DecoderOnlyState:
        """The rows of several states of one model, in order, in one state."""
        layers = zip(*(state.caches for state in states), strict=True)
        return DecoderOnlyState([type(per_layer[0]).join(per_layer) for per_layer in layers])


class DecoderOnly(nn.Module):
    """L blocks of one kind, then `norm` (the last norm of a pre-norm stack, else Identity)."""

    def __init__(self, blocks: Iterable[DecoderOnlyBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B T D"], documents: Documents | None = None
    ) -> Float[Tensor, "B T D"]:
        """All positions at once. Padding stands at the right, where the causal mask already hides
        it from every real token. documents: those of packed rows."""
        mask = Mask(causal=True, documents=documents)
        for block in self.blocks:
            x = block(x, mask)
        hidden: Tensor = self.norm(x)
        return hidden

    def start(self, num_rows: int) -> DecoderOnlyState:
        """A state of rows that hold no token yet."""
        blocks = cast("Iterable[DecoderOnlyBlock]", self.blocks)
        return DecoderOnlyState([block.attention.cache_type(num_rows) for block in blocks])

    def step(self, x: Float[Tensor, "N T D"], state: DecoderOnlyState) -> Float[Tensor, "N T D"]:
        """T new positions of each row; `state` is updated in place."""
        blocks = cast("Iterable[DecoderOnlyBlock]", self.blocks)
        for block, cache in zip(blocks, state.caches, strict=True):
            x = block.step(x, cache)
        hidden: Tensor = self.norm(x)
        return hidden
