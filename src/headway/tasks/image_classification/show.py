"""How a terminal shows classified images and the scores of an image classifier."""

from __future__ import annotations

from itertools import islice

from headway.evaluation.scores import Scores
from headway.tasks.image_classification.bundle import ClassifiedImage, ImageClassOptions
from headway.tasks.task import Styled, metrics_line

TOP = 5
"""Default number of labels of each image."""


def prediction_line(prediction: ClassifiedImage, options: ImageClassOptions) -> Styled:
    """Format the file, then labels and probabilities, most probable first, separated by tabs."""
    best = islice(prediction.probabilities.items(), options.top or TOP)
    cells = (f"{label}\t{probability:.3f}" for label, probability in best)
    return [("\t".join([prediction.file, *cells]), "")]


def score_line(scores: Scores) -> str:
    """Format the metrics, and the number of images that are classified correctly."""
    correct, images = scores.counts["correct"], scores.counts["images"]
    return f"{metrics_line(scores)}   {correct:,} of {images:,} images correct"
