"""The evaluation of an image classifier: accuracy, F1, cross-entropy and confusion matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.base.shapes import Float, Int, Tensor
from headway.data.image_examples import ImageExamples
from headway.data.image_reader import IMAGES_AT_ONCE
from headway.data.split import check_known
from headway.evaluation import accuracy_sums, class_scores, confusion
from headway.evaluation.scores import Confusion, Metric, Scores
from headway.tasks.image_classification.bundle import ImageClassifierBundle
from headway.tasks.task import NO_OPTIONS, NoOptions

TOP = 5
"""k of the top-k accuracy."""


def evaluate(
    bundle: ImageClassifierBundle,
    images: ImageExamples,
    options: NoOptions = NO_OPTIONS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Evaluate an image classifier: `metrics_of` the logits, and the confusion matrix.

    progress: called before each batch with the number of images classified so far. Raises DataError
    if there is no image, and for a class that the model does not have.
    """
    numbers = {label: i for i, label in enumerate(bundle.labels)}
    labelled = ((label, images.where(i)) for i, label in enumerate(images.labels))
    check_known(labelled, numbers, "class")
    if not len(images):
        raise DataError("no images to evaluate")
    parts = []
    for start in range(0, len(images), IMAGES_AT_ONCE):
        progress(start)
        batch = images.batch(range(start, min(start + IMAGES_AT_ONCE, len(images))), bundle.reader)
        parts.append(bundle.logits(batch.to(bundle.device)).cpu())
    logits = torch.cat(parts)
    true = [numbers[label] for label in images.labels]
    predicted = logits.argmax(-1).tolist()
    return Scores(
        metrics_of(logits, torch.tensor(true)),
        {
            "correct": sum(a == b for a, b in zip(predicted, true, strict=True)),
            "images": len(images),
        },
        confusion=Confusion(bundle.labels, confusion(predicted, true, len(bundle.labels))),
        sums={"accuracy": accuracy_sums(predicted, true)},
    )


def metrics_of(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> tuple[Metric, ...]:
    """Compute `class_scores`, top-5 accuracy above five classes, and mean cross-entropy in nats."""
    metrics = [
        Metric(name, value)
        for name, value in class_scores(logits.argmax(-1).tolist(), labels.tolist()).items()
    ]
    if logits.shape[1] > TOP:
        is_among = (logits.topk(TOP, dim=-1).indices == labels[:, None]).any(1)
        metrics.append(Metric("top5", float(is_among.float().mean())))
    loss = F.cross_entropy(logits, labels).item()
    return (*metrics, Metric("loss", loss, higher_is_better=False))
