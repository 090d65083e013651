"""How the metrics of a run are printed, for all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TITLES = {"bleu": "BLEU", "chrf": "chrF", "cider": "CIDEr-D"}
UNSHOWN = {"took", "seconds", "time"}


def metrics(event: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a `valid` event, in order, without the negated copies of older versions."""
    return {
        name: value
        for name, value in event.items()
        if isinstance(value, float) and name not in UNSHOWN and not name.startswith("negative_")
    }


def written(name: str, value: float) -> str:
    """A metric as text: scores from 0 to 100 (CIDEr-D: 10) with two decimals, others with three."""
    return f"{value:.2f}" if name in TITLES else f"{value:.3f}"


def best_of(metric: str, value: float) -> str:
    """The metric that selects the best model, with its usual name: BLEU 39.11, nats 1.400."""
    plain = metric.removeprefix("negative_")
    sign = 1 if plain == metric else -1
    return f"{TITLES.get(plain, plain)} {written(plain, sign * value)}"
