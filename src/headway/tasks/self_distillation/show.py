"""How a terminal shows the scores of an image encoder."""

from __future__ import annotations

from headway.evaluation.scores import Scores


def score_line(scores: Scores) -> str:
    """The metrics, and how many images they are of."""
    metrics = (f"{name} {value:.3f}" for name, value in scores.numbers().items())
    images, known = scores.counts["pictures"], scores.counts["known"]
    return "   ".join([*metrics, f"{images:,} pictures, {known:,} known"])
