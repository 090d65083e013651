"""What an evaluation gives: named numbers, the most important one first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
class Scores:
    """The result of an evaluation.

    metrics: the primary one first. counts: how much was evaluated, and what the metrics count.
    """

    metrics: tuple[Metric, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """The value of a metric."""
        return self.numbers()[name]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers()

    def numbers(self) -> dict[str, float]:
        """Name of a metric -> its value, in order."""
        return {metric.name: metric.value for metric in self.metrics}

    def as_dict(self) -> dict[str, float | int]:
        """Metrics and counts, for JSON."""
        return {**self.numbers(), **self.counts}
