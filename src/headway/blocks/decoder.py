"""The decoder: every token looks back at the tokens before it, and across at the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from headway.attention import KeyValueCache, Mask, MultiHeadAttention
from headway.blocks.residual import Residual
from headway.shapes import Bool, Float, Tensor


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
        k, v = memory.layers[layer]
        x = self.around_attention(x, lambda y: self.attention.attend_cached(y, cache))
        x = self.around_cross(x, lambda y: self.cross.attend(y, k, v, memory.mask))
        return self.around_feedforward(x, self.feedforward)


@dataclass
class Memory:
    """The source's keys and values for each layer, one row a sentence, shared by its beams.

    `rows[n]` is the sentence of decoder row n. Rows of one sentence stand together, equally many
    for each sentence; `arrange` keeps it so.
    """

    layers: list[tuple[Float[Tensor, "M H S K"], Float[Tensor, "M H S Kv"]]]
    keys: Bool[Tensor, "M S"] | None
    rows: list[int]

    @property
    def mask(self) -> Mask:
        return Mask(keys=self.keys)

    def arrange(self, rows: Sequence[int]) -> None:
        """Decoder row i becomes old row rows[i]; unused sentences are let go.

        The keys and values move only when the set of sentences changes. When the rows of a
        sentence are no longer together, or not equally many, each row gets its own copy.
        """
        sentences = [self.rows[row] for row in rows]
        runs = [s for i, s in enumerate(sentences) if i == 0 or s != sentences[i - 1]]
        share = len(sentences) // len(runs) if runs else 1
        if sentences != [s for s in runs for _ in range(share)]:
            runs, share = sentences, 1
        if runs != list(range(self.layers[0][0].shape[0])):
            index = torch.tensor(runs, dtype=torch.long, device=self.layers[0][0].device)
            self.layers = [
                (k.index_select(0, index), v.index_select(0, index)) for k, v in self.layers
            ]
            self.keys = None if self.keys is None else self.keys.index_select(0, index)
        self.rows = [place for place in range(len(runs)) for _ in range(share)]

    @staticmethod
    def join(parts: Sequence[Memory]) -> Memory:
        """One memory for the rows of several, each row with its own copy; short ones padded."""
        length = max(part.layers[0][0].shape[2] for part in parts)
        layers, keys = [], []
        for part in parts:
            k = part.layers[0][0]
            real = k.new_ones(k.shape[0], k.shape[2], dtype=torch.bool)
            real = real if part.keys is None else part.keys
            keys.append(_pad(real[part.rows], length, 1))
        for per_layer in zip(*(part.layers for part in parts), strict=True):
            stacked = [
                torch.cat(
                    [
                        _pad(pair[i][part.rows], length, 2)
                        for pair, part in zip(per_layer, parts, strict=True)
                    ]
                )
                for i in (0, 1)
            ]
            layers.append((stacked[0], stacked[1]))
        return Memory(layers, torch.cat(keys), list(range(sum(len(p.rows) for p in parts))))


def _pad(x: Tensor, length: int, axis: int) -> Tensor:
    missing = list(x.shape)
    missing[axis] = length - x.shape[axis]
    return torch.cat((x, x.new_zeros(missing)), dim=axis)


@dataclass
class DecoderState:
    """Everything that lives through decoding: passed to `step` and returned by it."""

    caches: list[KeyValueCache]
    memory: Memory

    @property
    def lengths(self) -> list[int]:
        """Tokens decoded so far in each row."""
        return self.caches[0].lengths

    def reorder(self, rows: Sequence[int]) -> DecoderState:
        """Row i becomes old row rows[i]; rows may repeat and be dropped."""
        for cache in self.caches:
            cache.reorder(rows)
        self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> DecoderState:
        """Take tokens back: row n keeps its first lengths[n]."""
        for cache in self.caches:
            cache.rewind(lengths)
        return self

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        """The rows of several states of one model, in order, in one state."""
        layers = zip(*(state.caches for state in states), strict=True)
        caches = [KeyValueCache.join(per_layer) for per_layer in layers]
        return DecoderState(caches, Memory.join([state.memory for state in states]))


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
        layers = [block.cross.keys_values(memory) for block in self.blocks]
        caches = [KeyValueCache(num_rows) for _ in self.blocks]
        return DecoderState(caches, Memory(layers, keys, list(range(num_rows))))

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        """T new positions of each row; `state` is updated in place."""
        for layer, (block, cache) in enumerate(zip(self.blocks, state.caches, strict=True)):
            x = block.step(x, cache, state.memory, layer)
        hidden: Tensor = self.norm(x)
        return hidden
