"""How a terminal and an inference server show classified texts, and the scores of a classifier."""

from __future__ import annotations

from itertools import islice
from typing import Any

from headway.bundle import label_scores
from headway.evaluation.scores import Scores
from headway.tasks.classification.bundle import ClassifiedText, ClassifierBundle, ClassOptions
from headway.tasks.task import Styled, metrics_line


def prediction_lines(
    bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
) -> list[Styled]:
    """Format labels and probabilities, most probable first, separated by tabs; or the number."""
    if prediction.probabilities is None:
        return [[(f"{prediction.number:.3f}", "")]]
    best = islice(prediction.probabilities.items(), options.top or 1)
    return [[("\t".join(f"{label}\t{probability:.3f}" for label, probability in best), "")]]


def pipeline_form(
    bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
) -> list[dict[str, Any]]:
    """Return the labels with their scores, or the number as the score of one label."""
    if prediction.number is not None:
        return [{"label": "number", "score": prediction.number}]
    return label_scores(prediction.probabilities or {})


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, and the number of texts or pairs that are classified correctly."""
    unit, count = list(scores.counts.items())[-1]
    if "correct" not in scores.counts:
        return [f"{metrics_line(scores)}   {count:,} {unit}"]
    return [f"{metrics_line(scores)}   {scores.counts['correct']:,} of {count:,} {unit} correct"]
