"""Correlation of values and of ranks, and the rank of the correct answer."""

import torch

from headway.base.shapes import Bool, Float, Int, Tensor


def ranks(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Return the rank of each value, 1 for the smallest; equal values share their mean rank."""
    _, group, sizes = torch.unique(values, return_inverse=True, return_counts=True)
    last = sizes.cumsum(0).double()
    mean_ranks: Tensor = (last - (sizes.double() - 1) / 2)[group]
    return mean_ranks


def pearson(x: Float[Tensor, " N"], y: Float[Tensor, " N"]) -> float:
    """Return Pearson's correlation cov(x, y) / (std(x) std(y)); 0 if x or y is constant.

    Raises ValueError for fewer than two values.
    """
    if len(x) < 2:
        raise ValueError(f"{len(x)=} must be at least 2")
    if any(bool((values == values[0]).all()) for values in (x, y)):
        return 0.0
    a, b = (values.double() - values.double().mean() for values in (x, y))
    cosine = (a / a.norm()) @ (b / b.norm())
    return float(cosine.clamp(-1, 1))


def spearman(x: Float[Tensor, " N"], y: Float[Tensor, " N"]) -> float:
    """Return Spearman's rank correlation: 1 if both have the same order. Spearman 1904."""
    return pearson(ranks(x), ranks(y))


def correct_ranks(scores: Float[Tensor, "N N"], left_out: Bool[Tensor, "N N"]) -> Int[Tensor, " N"]:
    """Return the rank of entry i in row i, with scores in descending order; 1 is best.

    left_out: entries that are ignored. Ties rank before the correct entry, so that a model that
    gives the same score to all entries gets the worst rank.
    """
    correct = scores.diagonal()[:, None]
    return ((scores >= correct) & ~left_out).sum(1)
