"""How far what was found agrees with what is true: classes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headway.evaluation.ranking import pearson, spearman

Array = np.ndarray[Any, np.dtype[Any]]


def class_scores(found: Sequence[int], true: Sequence[int]) -> dict[str, float]:
    """accuracy: the share that is right. macro_f1: the mean over classes of 2 r / (f + t), with f
    and t the texts found to be of the class and truly of it, and r those that are both; classes
    that are neither found nor true are left out. matthews: 1 for all right, 0 for chance, whatever
    the shares of the classes (Gorodkin 2004, equation 8); 0 where one class alone is found or true.
    """
    f, t = _sides(np.asarray(found), np.asarray(true))
    classes, places = np.unique(np.concatenate([f, t]), return_inverse=True)
    f, t = np.split(places, 2)
    right = np.bincount(t[f == t], minlength=len(classes)).astype(float)
    counts = [np.bincount(side, minlength=len(classes)).astype(float) for side in (f, t)]
    n, agreed = len(t), right.sum()
    above = agreed * n - counts[0] @ counts[1]
    below = math.prod(n * n - count @ count for count in counts)
    return {
        "accuracy": float(agreed / n),
        "macro_f1": float((2 * right / (counts[0] + counts[1])).mean()),
        "matthews": float(above / math.sqrt(below)) if below else 0.0,
    }


def confusion(found: Sequence[int], true: Sequence[int], classes: int) -> list[list[int]]:
    """counts[t][f]: how many that are truly of class t were found to be of class f."""
    f, t = _sides(np.asarray(found), np.asarray(true))
    counts: list[list[int]] = (
        np.bincount(t * classes + f, minlength=classes**2).reshape(classes, classes).tolist()
    )
    return counts


def number_scores(found: Sequence[float], true: Sequence[float]) -> dict[str, float]:
    """pearson: correlation. spearman: that of the ranks, equal numbers sharing the mean of theirs.
    mse: mean squared error. A correlation is 0 where a side is one number throughout.
    """
    sides = _sides(np.asarray(found, dtype=float), np.asarray(true, dtype=float))
    f, t = map(torch.from_numpy, sides)
    alone = len(f) == 1
    return {
        "pearson": 0.0 if alone else pearson(f, t),
        "spearman": 0.0 if alone else spearman(f, t),
        "mse": float((f - t).square().mean()),
    }


def _sides(found: Array, true: Array) -> tuple[Array, Array]:
    if found.shape != true.shape or not found.size:
        raise ValueError(f"{len(found)=} and {len(true)=} must be equal and not 0")
    return found, true
