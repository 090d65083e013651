"""How a terminal and an inference server show classified images, and the scores."""

from __future__ import annotations

from itertools import islice
from typing import Any

from headway.bundle import label_scores
from headway.evaluation.scores import Scores
from headway.tasks.image_classification.bundle import (
    ClassifiedImage,
    ImageClassifierBundle,
    ImageClassOptions,
)
from headway.tasks.task import Styled, metrics_line

TOP = 5
"""Default number of labels of each image."""


def prediction_lines(
    bundle: ImageClassifierBundle, prediction: ClassifiedImage, options: ImageClassOptions
) -> list[Styled]:
    """Format the file, then labels and probabilities, most probable first, separated by tabs."""
    best = islice(prediction.probabilities.items(), options.top or TOP)
    cells = (f"{label}\t{probability:.3f}" for label, probability in best)
    return [[("\t".join([prediction.file, *cells]), "")]]


def pipeline_form(
    bundle: ImageClassifierBundle, prediction: ClassifiedImage, options: ImageClassOptions
) -> list[dict[str, Any]]:
    """Return the labels with their scores."""
    return label_scores(prediction.probabilities)


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, and the number of images that are classified correctly."""
    correct, images = scores.counts["correct"], scores.counts["images"]
    return [f"{metrics_line(scores)}   {correct:,} of {images:,} images correct"]
