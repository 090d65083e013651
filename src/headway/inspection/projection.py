"""Principal components: vectors of many dimensions in two."""

import torch

from headway.base.shapes import Float, Tensor


def principal_components(points: Float[Tensor, "N D"], count: int = 2) -> Float[Tensor, "N C"]:
    """Return the coordinates of the points along the `count` directions of largest variance.

    X - mean = U S W^T (singular values, float64); the coordinates are U S. The sign of each
    direction is such that its largest entry is positive, so that the result is deterministic.
    Pearson 1901.
    """
    if not 1 <= count <= min(points.shape):
        raise ValueError(f"{count=} must be between 1 and {min(points.shape)}")
    exact = points.double()
    u, s, directions = torch.linalg.svd(exact - exact.mean(0), full_matrices=False)
    largest = directions.abs().argmax(1, keepdim=True)
    signs = directions.gather(1, largest)[:, 0].sign()
    coordinates: Tensor = u * s * torch.where(signs == 0, 1.0, signs)
    return coordinates[:, :count]
