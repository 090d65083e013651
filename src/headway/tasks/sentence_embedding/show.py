"""How a terminal shows the scores of a sentence encoder."""

from __future__ import annotations

from headway.evaluation.scores import Scores


def score_lines(scores: Scores) -> list[str]:
    """Format all metrics, and the number of pairs."""
    numbers = (f"{name} {value:.4f}" for name, value in scores.numbers().items())
    return ["   ".join([*numbers, f"{scores.counts['pairs']:,} pairs"])]
