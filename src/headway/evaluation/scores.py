"""What an evaluation gives: named numbers, the most important one first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Metric:
    """One number of an evaluation. signature: how it was computed, where that has a name."""

    name: str
    value: float
    higher_is_better: bool = True
    signature: str | None = None

    def is_better_than(self, other: float) -> bool:
        """Whether this value is better than another one of the same metric."""
        return self.value > other if self.higher_is_better else self.value < other


@dataclass(frozen=True)
class Confusion:
    """Which classes were predicted for which: counts[t][p] examples of the class labels[t] were
    predicted to be labels[p]."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Scores:
    """The result of an evaluation.

    metrics: the primary one first. counts: how much was evaluated, and what the metrics count.
    samples: a few examples with the outputs, for a person to read: name of a part -> its text, in
    the order in which they are shown. details: whatever else the evaluation says, for JSON.
    """

    metrics: tuple[Metric, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    samples: Sequence[Mapping[str, str]] = ()
    confusion: Confusion | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, name: str) -> Metric:
        """The metric of that name. KeyError if there is none."""
        return {metric.name: metric for metric in self.metrics}[name]

    def __getitem__(self, name: str) -> float:
        """The value of a metric."""
        return self.metric(name).value

    def __contains__(self, name: str) -> bool:
        return name in self.numbers()

    def numbers(self) -> dict[str, float]:
        """Name of a metric -> its value, in order."""
        return {metric.name: metric.value for metric in self.metrics}

    def as_dict(self) -> dict[str, Any]:
        """Metrics, counts and details, for JSON. A metric that is not finite is None."""
        numbers = {
            name: value if math.isfinite(value) else None for name, value in self.numbers().items()
        }
        return {**numbers, **self.counts, **self.details}
