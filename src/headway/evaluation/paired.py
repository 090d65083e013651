"""Paired bootstrap: is the difference of two models on the same examples more than chance?

Koehn 2004, "Statistical significance tests for machine translation evaluation".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLES, SEED = 1000, 12345
"""As sacrebleu's."""


@dataclass(frozen=True)
class Sums:
    """A metric of a corpus as a function of sums over its examples.

    terms: one row of k numbers for each example, such as matched and possible n-grams for BLEU, or
    (1 if correct, 1) for accuracy. value: the metric, computed from the sum of these rows.
    """

    terms: np.ndarray[Any, np.dtype[np.float64]]
    value: Callable[[Sequence[float]], float]

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.terms)

    def corpus(self) -> float:
        """Return the metric of all examples."""
        return self.value(self.terms.sum(0).tolist())


@dataclass(frozen=True)
class PairedDifference:
    """The difference of one metric between two models.

    low, high: 95 % of the resampled differences lie between them. p_value: the probability of a
    difference at least as large if both models were equally good.
    """

    first: float
    second: float
    low: float
    high: float
    p_value: float

    @property
    def difference(self) -> float:
        return self.first - self.second


def paired_bootstrap(
    first: Sums, second: Sums, samples: int = SAMPLES, seed: int = SEED
) -> PairedDifference:
    """Compare two models by `samples` draws of as many examples, with replacement.

    Each draw takes the same examples for both. The p-value counts the draws whose difference is at
    least as far from the mean difference of all draws as the observed one from 0 (Riezler and
    Maxwell 2005); the observed one counts as a draw. Raises ValueError if the models were evaluated
    on different numbers of examples, or on none.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError(f"{len(first)=} and {len(second)=} must be equal and not 0")
    generator = np.random.default_rng(seed)
    examples = len(first)
    drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=samples)
    ours, theirs = (
        np.array([sums.value(row) for row in (drawn @ sums.terms).tolist()])
        for sums in (first, second)
    )
    differences = ours - theirs
    observed = first.corpus() - second.corpus()
    as_far = np.abs(differences - differences.mean()) >= abs(observed)
    low, high = np.percentile(differences, [2.5, 97.5]).tolist()
    p_value = (int(as_far.sum()) + 1) / (samples + 1)
    return PairedDifference(first.corpus(), second.corpus(), low, high, p_value)
