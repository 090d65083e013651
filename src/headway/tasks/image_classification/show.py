"""How a terminal shows classified images and the scores of an image classifier."""

from __future__ import annotations

from itertools import islice

from headway.evaluation.scores import Scores
from headway.tasks.image_classification.bundle import ClassifiedImage, ImageClassOptions
from headway.tasks.task import Styled, metrics_line

TOP = 5
"""Number of labels of each image, if not chosen."""


def prediction_line(prediction: ClassifiedImage, options: ImageClassOptions) -> Styled:
    """The file, then labels and probabilities, the most probable first, with tabs between them."""
    best = islice(prediction.probabilities.items(), options.top or TOP)
    cells = (f"{label}\t{probability:.3f}" for label, probability in best)
    return [("\t".join([prediction.file, *cells]), "")]


def score_line(scores: Scores) -> str:
    """The metrics, and how many images are right."""
    right, images = scores.counts["right"], scores.counts["pictures"]
    return f"{metrics_line(scores)}   {right:,} of {images:,} pictures"
