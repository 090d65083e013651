"""How a terminal shows classified texts and the scores of a classifier."""

from __future__ import annotations

from itertools import islice

from headway.evaluation.scores import Scores
from headway.tasks.classification.bundle import ClassifiedText, ClassOptions
from headway.tasks.task import Styled, metrics_line


def prediction_line(prediction: ClassifiedText, options: ClassOptions) -> Styled:
    """Labels and probabilities, the most probable first, with tabs between; or the number."""
    if prediction.probabilities is None:
        return [(f"{prediction.number:.3f}", "")]
    best = islice(prediction.probabilities.items(), options.top or 1)
    return [("\t".join(f"{label}\t{probability:.3f}" for label, probability in best), "")]


def score_line(scores: Scores) -> str:
    """The metrics, and how many texts, or pairs, are right."""
    unit, count = list(scores.counts.items())[-1]
    right = f"{scores.counts['right']:,} of " if "right" in scores.counts else ""
    return f"{metrics_line(scores)}   {right}{count:,} {unit}"
