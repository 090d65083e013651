"""Attention maps drawn over the image."""

import math
from pathlib import Path

import numpy as np

from headway.base.shapes import Bool, Float, Tensor
from headway.inspection.image_attention import Looks
from headway.inspection.plots import drawable, page

ACROSS = 6  # images per row
MOST = 120
INCHES = 1.9  # length of the longer side of an image
FINE = 8  # factor by which the grid for outlines is finer than the patches


def overlays(
    path: Path,
    looks: Looks,
    *,
    title: str = "",
    outlined: float | None = None,
    one_scale: bool = False,
) -> None:
    """Draw the image, and its attention map over a grey copy for each word or head.

    The title of each map is the fraction of the attention that falls on patches. one_scale: whether
    all maps have one colour scale, up to the largest weight of all; otherwise each has its own.
    outlined: draw a line around the fewest patches with this fraction of the weight (Caron et al.
    2021, figure 1: 0.6).
    """
    names, maps, pixels = looks.names, looks.maps.double(), looks.pixels
    if len(names) != len(maps) or not 1 <= len(names) <= MOST:
        raise ValueError(
            f"{len(names)} names for {len(maps)} maps: there must be 1 to {MOST} maps, and one "
            "name for each"
        )
    if not maps.isfinite().all() or maps.min() < 0:
        raise ValueError("maps must have finite weights of at least 0")
    height, width = pixels.shape[:2]
    down = math.ceil((len(names) + 1) / ACROSS)
    across = math.ceil((len(names) + 1) / down)
    scale = INCHES / max(height, width)
    size = across * (width * scale + 0.2), down * (height * scale + 0.5) + (0.4 if title else 0.1)
    grey, greatest = pixels.mean(-1), float(maps.max())
    with page(path, size) as figure:
        shown = list(figure.subplots(down, across, squeeze=False).flat)
        for axes in shown:
            axes.set_axis_off()
        shown[0].imshow(pixels.squeeze(), cmap="gray", vmin=0, vmax=255)
        for axes, name, weights in zip(shown[1:], names, maps, strict=False):
            axes.imshow(grey, cmap="gray", vmin=0, vmax=255)
            most = (greatest if one_scale else float(weights.max())) or 1.0
            opacity = 0.9 * (weights / most).sqrt().numpy()  # patches without weight stay visible
            y, x = looks.reach
            shade = {"cmap": "plasma", "vmin": 0, "vmax": most, "alpha": opacity}
            axes.imshow(weights.numpy(), extent=(-0.5, x - 0.5, y - 0.5, -0.5), **shade)
            inside = None if outlined is None else held(weights, outlined)
            if inside is not None and 0 < inside.sum() < inside.numel():
                fine = inside.repeat_interleave(FINE, 0).repeat_interleave(FINE, 1).numpy()
                rows, columns = (
                    (np.arange(count) + 0.5) * side / count - 0.5
                    for count, side in zip(fine.shape, looks.reach, strict=True)
                )
                axes.contour(columns, rows, fine, levels=[0.5], colors="white", linewidths=0.9)
            axes.set_xlim(-0.5, width - 0.5)
            axes.set_ylim(height - 0.5, -0.5)
            axes.set_title(f"{drawable(name)}  {float(weights.sum()):.0%}", fontsize=9)
        if title:
            figure.suptitle(drawable(title), x=0.01, ha="left")


def held(weights: Float[Tensor, "r c"], fraction: float) -> Bool[Tensor, "r c"]:
    """Return True for the fewest patches whose weights sum to at least the fraction `fraction`."""
    flat = weights.double().flatten()
    order = flat.argsort(descending=True, stable=True)
    before = flat[order].cumsum(0) - flat[order]
    taken = before < fraction * flat.sum()
    inside = taken.new_zeros(len(flat))
    inside[order] = taken
    return inside.reshape(weights.shape)
