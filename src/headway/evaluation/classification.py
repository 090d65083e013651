"""Metrics of classification and regression: accuracy, F1, correlation."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Tensor
from headway.evaluation.paired import Sums
from headway.evaluation.ranking import pearson, spearman
from headway.evaluation.scores import Confusion, Metric, Scores

Array = np.ndarray[Any, np.dtype[Any]]


def score_classes(
    logits: Float[Tensor, "N C"],
    true: Sequence[int],
    labels: Sequence[str],
    unit: str,
    top: int | None = None,
) -> Scores:
    """Score the logits of a classifier.

    The metrics are those of `class_scores`, the fraction of examples whose class is among the `top`
    most probable ones if there are more classes than that, and the mean cross-entropy in nats. The
    scores have the confusion matrix. true: the class of each example. labels: the names of the
    classes. unit: the word for the examples.
    """
    predicted, targets = logits.argmax(-1).tolist(), torch.tensor(true)
    metrics = [Metric(name, value) for name, value in class_scores(predicted, true).items()]
    if top is not None and logits.shape[1] > top:
        is_among = (logits.topk(top, dim=-1).indices == targets[:, None]).any(1)
        metrics.append(Metric(f"top{top}", float(is_among.float().mean())))
    loss = F.cross_entropy(logits, targets).item()
    correct = sum(a == b for a, b in zip(predicted, true, strict=True))
    return Scores(
        (*metrics, Metric("loss", loss, higher_is_better=False)),
        {"correct": correct, unit: len(true)},
        confusion=Confusion(labels, confusion(predicted, true, len(labels))),
        sums={"accuracy": accuracy_sums(predicted, true)},
    )


def class_scores(predicted: Sequence[int], true: Sequence[int]) -> dict[str, float]:
    """Return accuracy, macro-averaged F1 and Matthews correlation of predicted classes.

    accuracy: the fraction of correct predictions. macro_f1: the mean over classes of 2 c / (p + t),
    with p examples predicted to be of the class, t truly of it and c both; classes that occur in
    neither list are left out. matthews: 1 for all correct, 0 for random predictions, whatever the
    class frequencies (Gorodkin 2004, equation 8); 0 if either list has one class only.
    """
    p, t = _checked(np.asarray(predicted), np.asarray(true))
    classes, numbers = np.unique(np.concatenate([p, t]), return_inverse=True)
    p, t = np.split(numbers, 2)
    correct = np.bincount(t[p == t], minlength=len(classes)).astype(float)
    counts = [np.bincount(labels, minlength=len(classes)).astype(float) for labels in (p, t)]
    n, num_correct = len(t), correct.sum()
    numerator = num_correct * n - counts[0] @ counts[1]
    denominator = math.prod(n * n - count @ count for count in counts)
    return {
        "accuracy": float(num_correct / n),
        "macro_f1": float((2 * correct / (counts[0] + counts[1])).mean()),
        "matthews": float(numerator / math.sqrt(denominator)) if denominator else 0.0,
    }


def accuracy_sums(predicted: Sequence[int], true: Sequence[int]) -> Sums:
    """Return accuracy by example, to compare two models on the same examples."""
    p, t = _checked(np.asarray(predicted), np.asarray(true))
    terms = np.stack([p == t, np.ones(len(t))], axis=1).astype(np.float64)
    return Sums(terms, lambda sums: sums[0] / sums[1])


def confusion(predicted: Sequence[int], true: Sequence[int], classes: int) -> list[list[int]]:
    """Return the confusion matrix: counts[t][p] examples of class t were predicted to be of p."""
    p, t = _checked(np.asarray(predicted), np.asarray(true))
    counts: list[list[int]] = (
        np.bincount(t * classes + p, minlength=classes**2).reshape(classes, classes).tolist()
    )
    return counts


def number_scores(predicted: Sequence[float], true: Sequence[float]) -> dict[str, float]:
    """Return Pearson and Spearman correlation and mean squared error (mse) of predicted numbers.

    Equal numbers share the mean of their ranks. A correlation is 0 if either list is constant.
    """
    checked = _checked(np.asarray(predicted, dtype=float), np.asarray(true, dtype=float))
    p, t = map(torch.from_numpy, checked)
    single = len(p) == 1
    return {
        "pearson": 0.0 if single else pearson(p, t),
        "spearman": 0.0 if single else spearman(p, t),
        "mse": float((p - t).square().mean()),
    }


def _checked(predicted: Array, true: Array) -> tuple[Array, Array]:
    """Return the two arrays; raise ValueError if they are empty or differ in length."""
    if predicted.shape != true.shape or not predicted.size:
        raise ValueError(f"{len(predicted)=} and {len(true)=} must be equal and not 0")
    return predicted, true
