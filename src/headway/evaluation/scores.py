"""The result of an evaluation: named metrics, the primary one first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.evaluation.paired import Sums


@dataclass(frozen=True)
class Metric:
    """One metric of an evaluation. signature: how it was computed, such as sacrebleu's."""

    name: str
    value: float
    higher_is_better: bool = True
    signature: str | None = None

    def is_better_than(self, other: float) -> bool:
        """Return whether this value is better than another value of the same metric."""
        return self.value > other if self.higher_is_better else self.value < other


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix: counts[t][p] examples of class labels[t] were predicted to be labels[p]."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Scores:
    """The result of an evaluation.

    metrics: all metrics, the primary one first. counts: the sizes of the evaluated data. samples: a
    few examples with their outputs for display: name of a part -> its text, in the order of
    display. confusion: the confusion matrix, if any. details: further results for JSON. sums: name
    of a metric -> its terms for each example, with which two models are compared
    (`paired_bootstrap`).
    """

    metrics: tuple[Metric, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    samples: Sequence[Mapping[str, str]] = ()
    confusion: Confusion | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    sums: Mapping[str, Sums] = field(default_factory=dict, compare=False, repr=False)

    def metric(self, name: str) -> Metric:
        """Return the metric of that name. Raises KeyError if there is none."""
        return {metric.name: metric for metric in self.metrics}[name]

    def __getitem__(self, name: str) -> float:
        """Return the value of a metric. Raises KeyError if there is none."""
        return self.metric(name).value

    def __contains__(self, name: str) -> bool:
        return name in self.numbers()

    def numbers(self) -> dict[str, float]:
        """Return the values of all metrics by name, in order."""
        return {metric.name: metric.value for metric in self.metrics}

    def as_dict(self) -> dict[str, Any]:
        """Return metrics, counts and details for JSON. A metric that is not finite becomes None."""
        numbers = {
            name: value if math.isfinite(value) else None for name, value in self.numbers().items()
        }
        return {**numbers, **self.counts, **self.details}
