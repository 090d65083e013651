"""The evaluation of a text classifier or regression model.

Accuracy, F1, Matthews correlation and cross-entropy; or correlations and mean squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.data.split import check_known
from headway.evaluation import accuracy_sums, class_scores, confusion, number_scores
from headway.evaluation.scores import Confusion, Metric, Scores
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.data import columns_of, labelled_texts, labels_of
from headway.tasks.classification.label_files import LabelledText, read_labelled
from headway.tasks.task import NO_OPTIONS, NoOptions
from headway.tasks.truncation import warn_of_truncation


def read_examples(
    bundle: ClassifierBundle, paths: Sequence[Path], config: Any, options: NoOptions
) -> Sequence[LabelledText]:
    """Read the labelled texts of tables. Warns of texts that are truncated."""
    texts = [
        text
        for path in paths
        for text in read_labelled([path], columns_of(bundle, path, config).columns)
    ]
    _warn(bundle, texts)
    return texts


def held_out_examples(
    bundle: ClassifierBundle, run: Path, config: Any, options: NoOptions
) -> Sequence[LabelledText]:
    """Read the held-out texts of a run. Warns of texts that are truncated."""
    texts = labelled_texts(config.data)[1]
    _warn(bundle, texts)
    return texts


def _warn(bundle: ClassifierBundle, texts: Sequence[LabelledText]) -> None:
    lengths = bundle.reader.lengths([text.texts for text in texts])
    warn_of_truncation(lengths, bundle.reader.max_length)


def evaluate(
    bundle: ClassifierBundle,
    texts: Sequence[LabelledText],
    options: NoOptions = NO_OPTIONS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Evaluate a classifier or a regression model.

    Returns `class_scores`, the mean cross-entropy in nats and the confusion matrix of a classifier;
    `number_scores` of a regression model. progress: called before each batch with the number of
    texts processed so far. Raises DataError if there is no text, for a label that the model does
    not have, and for a label that is no number if the model predicts numbers.
    """
    if not texts:
        raise DataError("no texts to evaluate")
    unit = "texts" if isinstance(texts[0].texts, str) else "pairs"
    if bundle.reader.numbers is not None:
        true = [text.number for text in texts]
        logits = bundle.logits([text.texts for text in texts], progress)[:, 0]
        predicted = [bundle.reader.numbers.restored(z) for z in logits.tolist()]
        metrics = tuple(
            Metric(name, value, higher_is_better=name != "mse")
            for name, value in number_scores(predicted, true).items()
        )
        return Scores(metrics, {unit: len(texts)})
    numbers = {label: i for i, label in enumerate(bundle.labels)}
    check_known(labels_of(texts), numbers, "label")
    return _of_classes(bundle, texts, [numbers[text.label] for text in texts], unit, progress)


def _of_classes(
    bundle: ClassifierBundle,
    texts: Sequence[LabelledText],
    classes: list[int],
    unit: str,
    progress: Callable[[int], None],
) -> Scores:
    logits = bundle.logits([text.texts for text in texts], progress).cpu()
    predicted = logits.argmax(-1).tolist()
    loss = F.cross_entropy(logits, torch.tensor(classes)).item()
    metrics = [Metric(name, value) for name, value in class_scores(predicted, classes).items()]
    correct = sum(a == b for a, b in zip(predicted, classes, strict=True))
    return Scores(
        (*metrics, Metric("loss", loss, higher_is_better=False)),
        {"correct": correct, unit: len(texts)},
        confusion=Confusion(bundle.labels, confusion(predicted, classes, len(bundle.labels))),
        sums={"accuracy": accuracy_sums(predicted, classes)},
    )
