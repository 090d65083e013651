"""How a terminal shows the scores of an image encoder."""

from __future__ import annotations

from headway.evaluation.scores import Scores
from headway.tasks.task import metrics_line


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, and the numbers of evaluated images and of labelled neighbours."""
    images, known = scores.counts["images"], scores.counts["known"]
    return [f"{metrics_line(scores)}   {images:,} images, {known:,} labelled images as neighbours"]
