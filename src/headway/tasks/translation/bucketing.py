"""Bucketing: batches with a fixed token budget from sentences of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.base.errors import UsageError
from headway.data.mixing import Mixture

Array = np.ndarray[Any, np.dtype[Any]]


class Buckets:
    """Splits each epoch into batches with batch size * (longest side + 1) <= tokens.

    The pairs are shuffled. Pools of `pool` pairs are sorted by target length, then source length
    (ties stay shuffled) and cut into batches, and all batches are shuffled. The result depends only
    on (seed, epoch), so training can resume at any batch. The + 1 is for </s>. mixture: chooses the
    pairs of each epoch from several corpora; None for each pair once.
    """

    def __init__(
        self,
        source_lengths: Array,
        target_lengths: Array,
        tokens: int,
        seed: int,
        pool: int = 100_000,
        mixture: Mixture | None = None,
    ) -> None:
        self.source, self.target = source_lengths, target_lengths
        self.tokens, self.seed, self.pool, self.mixture = tokens, seed, pool, mixture
        self.longest = np.maximum(source_lengths, target_lengths) + 1
        if len(self.longest) and (longest := int(self.longest.max())) > tokens:
            raise UsageError(
                f"a batch has at most {tokens} tokens, but the longest sentence has {longest}",
                hint=f"set --training.tokens to {longest} or more, or --data.max-length lower",
            )

    def epoch(self, number: int) -> list[Array]:
        """Return the batches of an epoch as arrays of indices.

        Without a mixture each index occurs exactly once.
        """
        seeds = np.random.SeedSequence([self.seed, number])
        generator = np.random.Generator(np.random.PCG64(seeds))
        chosen = None if self.mixture is None else self.mixture.epoch(number)
        order = generator.permutation(len(self.longest) if chosen is None else chosen)
        batches: list[Array] = []
        for start in range(0, len(order), self.pool):
            pool = order[start : start + self.pool]
            ranked = pool[np.lexsort((self.source[pool], self.target[pool]))]  # last key first
            batches += self._cut(ranked)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, ranked: Array) -> list[Array]:
        batches, start, widest = [], 0, 0
        for index, longest in enumerate(self.longest[ranked].tolist()):
            widest = max(widest, longest)
            if (index - start + 1) * widest > self.tokens:
                batches.append(ranked[start:index])
                start, widest = index, longest
        batches.append(ranked[start:])
        return batches

    def padding(self, batches: Sequence[Array]) -> float:
        """Return the fraction of padding among all positions of the padded matrices."""
        cells = real = 0
        for side in (self.source, self.target):
            for batch in batches:
                lengths = side[batch] + 1
                cells += int(lengths.max()) * len(batch)
                real += int(lengths.sum())
        return 1 - real / cells
