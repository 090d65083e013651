"""Batches of a fixed token budget from sentences of like length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.errors import UsageError

Array = np.ndarray[Any, np.dtype[Any]]


class Buckets:
    """Cuts each epoch into batches with rows * (longest side + 1) <= tokens.

    The order is shuffled; inside pools of `pool` pairs it is sorted by target, then source length
    (ties stay shuffled), cut into batches, and the batches are shuffled. Everything follows from
    (seed, epoch) alone, so any epoch can be entered at any batch. The + 1 is </s>.
    """

    def __init__(
        self,
        source_lengths: Array,
        target_lengths: Array,
        tokens: int,
        seed: int,
        pool: int = 100_000,
    ) -> None:
        self.source, self.target = source_lengths, target_lengths
        self.tokens, self.seed, self.pool = tokens, seed, pool
        self.longest = np.maximum(source_lengths, target_lengths) + 1
        if len(self.longest) and (longest := int(self.longest.max())) > tokens:
            raise UsageError(
                f"a sentence of {longest} tokens does not fit into a batch of {tokens}",
                hint=f"--training.tokens {longest} or more, or a smaller --data.max-length",
            )

    def epoch(self, number: int) -> list[Array]:
        """The batches of one epoch: arrays of indices, every index exactly once."""
        seeds = np.random.SeedSequence([self.seed, number])
        generator = np.random.Generator(np.random.PCG64(seeds))
        order = generator.permutation(len(self.longest))
        batches: list[Array] = []
        for start in range(0, len(order), self.pool):
            pool = order[start : start + self.pool]
            ranked = pool[np.lexsort((self.source[pool], self.target[pool]))]  # last key first
            batches += self._cut(ranked)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, ranked: Array) -> list[Array]:
        batches, start, widest = [], 0, 0
        for place, longest in enumerate(self.longest[ranked].tolist()):
            widest = max(widest, longest)
            if (place - start + 1) * widest > self.tokens:
                batches.append(ranked[start:place])
                start, widest = place, longest
        batches.append(ranked[start:])
        return batches

    def padding(self, batches: Sequence[Array]) -> float:
        """Share of the cells of all padded matrices that hold no token."""
        cells = real = 0
        for side in (self.source, self.target):
            for batch in batches:
                lengths = side[batch] + 1
                cells += int(lengths.max()) * len(batch)
                real += int(lengths.sum())
        return 1 - real / cells
