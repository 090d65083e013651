"""Whether one order is the other, and how early the right answer stands."""

from __future__ import annotations

import torch

from headway.shapes import Bool, Float, Int, Tensor


def ranks(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """1 for the smallest value and so on; equal ones share the mean of their ranks."""
    _, group, sizes = torch.unique(values, return_inverse=True, return_counts=True)
    last = sizes.cumsum(0).double()
    found: Tensor = (last - (sizes.double() - 1) / 2)[group]
    return found


def pearson(x: Float[Tensor, " N"], y: Float[Tensor, " N"]) -> float:
    """cov(x, y) / (std(x) std(y)); 0 where one of them never changes, as it tells nothing then.

    ValueError for fewer than two values.
    """
    if len(x) < 2:
        raise ValueError(f"{len(x)=} must be at least 2")
    if any(bool((side == side[0]).all()) for side in (x, y)):
        return 0.0
    a, b = (side.double() - side.double().mean() for side in (x, y))
    cosine = (a / a.norm()) @ (b / b.norm())
    return float(cosine.clamp(-1, 1))


def spearman(x: Float[Tensor, " N"], y: Float[Tensor, " N"]) -> float:
    """Pearson's correlation of the ranks: 1 where both have the same order. Spearman 1904."""
    return pearson(ranks(x), ranks(y))


def places_of_right(
    scores: Float[Tensor, "N N"], left_out: Bool[Tensor, "N N"]
) -> Int[Tensor, " N"]:
    """Where entry i stands in row i when its scores are sorted, the greatest first; 1 is best.

    What is left out does not count. Equal scores stand before the right one: a model to which all
    is one finds nothing.
    """
    right = scores.diagonal()[:, None]
    return ((scores >= right) & ~left_out).sum(1)
