"""Mixing of corpora: how many examples of each an epoch has, and which."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import UsageError


def check_weights(weights: Sequence[float], count: int) -> None:
    """Raise UsageError unless there are no weights, or a positive one for each of `count`
    corpora."""
    if weights and len(weights) != count:
        raise UsageError(
            f"there must be one weight for each of {count} corpora, but there are {len(weights)}",
            hint="set --data.weights to one positive number for each of --data.train",
        )
    if weights and not all(weight > 0 and math.isfinite(weight) for weight in weights):
        raise UsageError(
            f"weights must be positive numbers, but are {', '.join(map(str, weights))}",
            hint="set --data.weights to positive numbers; remove a corpus from --data.train "
            "to leave it out",
        )


def quotas_of(
    sizes: Sequence[int], weights: Sequence[float] = (), temperature: float = 1.0
) -> npt.NDArray[np.int64]:
    """Return the number of examples of each corpus in an epoch, which has sum(sizes) examples.

    The fraction of corpus i is p_i = w_i^(1/T) / sum_j w_j^(1/T), where w are the weights, or the
    sizes if there are none, and T is the temperature: 1 keeps the proportions, and a higher one
    gives small corpora more (Arivazhagan et al. 2019, section 4.1; T = 5).
    """
    fractions = np.array(weights or sizes, dtype=np.float64)
    fractions = (
        (fractions / fractions.max()) ** (1 / temperature) if temperature != 1 else fractions
    )
    total = sum(sizes)
    ends = np.round(np.cumsum(fractions / fractions.sum()) * total).astype(np.int64)
    return np.diff(ends, prepend=0)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The examples of each epoch of several corpora, whose examples are numbered one after the
    other.

    sizes: number of examples of each corpus. quotas: number of examples of each in an epoch. Every
    corpus is read in passes of a random order, one pass after the other over all epochs, so that
    no example occurs twice before all others of its corpus occurred. An epoch depends only on the
    seed and its number.
    """

    sizes: tuple[int, ...]
    quotas: tuple[int, ...]
    seed: int

    def epoch(self, number: int) -> npt.NDArray[np.int64]:
        """Return the indices of the examples of an epoch, grouped by corpus."""
        parts: list[npt.NDArray[Any]] = []
        start = 0
        for corpus, (size, quota) in enumerate(zip(self.sizes, self.quotas, strict=True)):
            draws = number * quota + np.arange(quota)
            indices = np.empty(quota, np.int64)
            for of_pass in np.unique(draws // size):
                order = np.random.default_rng([self.seed, corpus, int(of_pass)]).permutation(size)
                in_pass = draws // size == of_pass
                indices[in_pass] = order[draws[in_pass] % size]
            parts.append(start + indices)
            start += size
        return np.concatenate(parts)
