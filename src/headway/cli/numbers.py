"""How a run's numbers are shown, whatever its family evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TITLES = {"bleu": "BLEU", "chrf": "chrF", "cider": "CIDEr-D"}
UNSHOWN = {"took", "seconds", "time"}


def metrics(event: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a `valid` event, in the evaluator's order; negated ones stand there twice."""
    return {
        name: value
        for name, value in event.items()
        if isinstance(value, float) and name not in UNSHOWN and not name.startswith("negative_")
    }


def written(name: str, value: float) -> str:
    """Scores of 0 to 100 (CIDEr-D: to 10) with two places, everything else with three."""
    return f"{value:.2f}" if name in TITLES else f"{value:.3f}"


def best_of(metric: str, value: float) -> str:
    """What a run is best by, under the name that people know: BLEU 39.11, nats 1.400."""
    plain = metric.removeprefix("negative_")
    sign = 1 if plain == metric else -1
    return f"{TITLES.get(plain, plain)} {written(plain, sign * value)}"
