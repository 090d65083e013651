"""Many dimensions on a page."""

from __future__ import annotations

import torch

from headway.shapes import Float, Tensor


def principal_components(points: Float[Tensor, "N D"], count: int = 2) -> Float[Tensor, "N C"]:
    """The points' coordinates along the `count` directions in which they vary most.

    X - mean = U S W^T (singular values, float64); the coordinates are U S. Each direction points
    where its largest entry is positive, so the same points always give the same picture. Pearson
    1901.
    """
    if not 1 <= count <= min(points.shape):
        raise ValueError(f"{count=} must be between 1 and {min(points.shape)}")
    exact = points.double()
    u, s, directions = torch.linalg.svd(exact - exact.mean(0), full_matrices=False)
    largest = directions.abs().argmax(1, keepdim=True)
    signs = directions.gather(1, largest)[:, 0].sign()
    coordinates: Tensor = u * s * torch.where(signs == 0, 1.0, signs)
    return coordinates[:, :count]
