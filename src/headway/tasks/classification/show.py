"""How a terminal shows classified texts and the scores of a classifier."""

from __future__ import annotations

from itertools import islice

from headway.evaluation.scores import Scores
from headway.tasks.classification.bundle import ClassifiedText, ClassOptions
from headway.tasks.task import Styled, metrics_line


def prediction_line(prediction: ClassifiedText, options: ClassOptions) -> Styled:
    """Format labels and probabilities, most probable first, separated by tabs; or the number."""
    if prediction.probabilities is None:
        return [(f"{prediction.number:.3f}", "")]
    best = islice(prediction.probabilities.items(), options.top or 1)
    return [("\t".join(f"{label}\t{probability:.3f}" for label, probability in best), "")]


def score_line(scores: Scores) -> str:
    """Format the metrics, and the number of texts or pairs that are classified correctly."""
    unit, count = list(scores.counts.items())[-1]
    if "correct" not in scores.counts:
        return f"{metrics_line(scores)}   {count:,} {unit}"
    return f"{metrics_line(scores)}   {scores.counts['correct']:,} of {count:,} {unit} correct"
