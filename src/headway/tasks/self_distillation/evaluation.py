"""The evaluation of an image encoder that was trained without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from headway.base.errors import DataError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import ImageEncoderBundle
from headway.data.image_examples import ImageExamples
from headway.data.image_reader import IMAGES_AT_ONCE
from headway.data.split import evenly_spaced
from headway.evaluation.scores import Metric, Scores
from headway.tasks.self_distillation.config import NeighbourOptions
from headway.tasks.self_distillation.data import NeighbourExamples
from headway.tasks.self_distillation.nearest_neighbours import knn_accuracy, linear_accuracy, spread

DEFAULTS = NeighbourOptions()


def evaluate(
    bundle: ImageEncoderBundle,
    examples: NeighbourExamples,
    options: NeighbourOptions = DEFAULTS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Compute k-nearest-neighbour accuracy, accuracy of a linear classifier, and spread of vectors.

    If the labelled neighbours have only one label, the spread is the only score. The vector of an
    image is that of [CLS], or the mean of its patches' if there is no [CLS]. Caron et al. 2021,
    section 4.1.

    progress: called before each batch with the number of images encoded so far. Raises DataError
    for a label that no neighbour has.
    """
    known, images = examples.known, examples.images
    numbers = {label: i for i, label in enumerate(sorted(set(known.labels)))}
    for i, label in enumerate(images.labels):
        if label not in numbers:
            raise DataError(
                f"no labelled neighbour has the class {label!r}",
                images.where(i),
                "add images of that class to --known",
            )
    if not len(images) or not len(known):
        missing = "labelled images as neighbours" if len(images) else "images to evaluate"
        raise DataError(f"no {missing}")
    chosen = evenly_spaced(len(known), options.known_limit)
    vectors = _vectors(bundle, images, range(len(images)), progress)
    metrics = [Metric("spread", spread(vectors))]
    counts = {"known": len(chosen), "images": len(images)}
    if len(numbers) > 1:
        known_vectors = _vectors(bundle, known, chosen, lambda done: progress(len(images) + done))
        labels = _numbers(known, chosen, numbers)
        true = _numbers(images, range(len(images)), numbers)
        with torch.autocast("cpu", enabled=False):
            nearest = knn_accuracy(known_vectors, labels, vectors, true, options.neighbours)
            linear = linear_accuracy(known_vectors, labels, vectors, true)
        metrics = [Metric("knn", nearest), Metric("linear", linear), *metrics]
    return Scores(tuple(metrics), counts)


def _vectors(
    bundle: ImageEncoderBundle,
    images: ImageExamples,
    chosen: Sequence[int],
    progress: Callable[[int], None],
) -> Float[Tensor, "N D"]:
    """Compute the vectors of the chosen images, on the CPU."""
    vectors = []
    for start in range(0, len(chosen), IMAGES_AT_ONCE):
        progress(start)
        batch = images.batch(chosen[start : start + IMAGES_AT_ONCE], bundle.reader)
        vectors.append(bundle.encode(batch.to(bundle.device)).cpu())
    return torch.cat(vectors)


def _numbers(
    images: ImageExamples, chosen: Sequence[int], numbers: dict[str, int]
) -> Int[Tensor, " N"]:
    labels = images.labels
    return torch.tensor([numbers[labels[i]] for i in chosen])
