"""What a model looks at in a picture, drawn over the picture (lectures 3.9, 3.10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.data.images import Pixels
from headway.inspection.plots import drawable, page
from headway.shapes import Float, Tensor

ACROSS = 4  # pictures in a row
MOST = 64
INCHES = 1.9  # of a picture's longer side


@dataclass(frozen=True)
class Overlay:
    """title: stands over the picture. weights: of each patch, rows down and columns across."""

    title: str
    weights: Float[Tensor, "Y X"]


def overlays(
    path: Path,
    pixels: Pixels,
    panels: Sequence[Overlay],
    *,
    title: str = "",
    outlined: float | None = None,
) -> None:
    """The picture, and again under each panel's weights, bright where they are large.

    Every panel has its own scale, from 0 to its greatest weight. outlined: a line around the
    patches that, taken from the largest on, hold so much of the weight together (Caron et al. 2021,
    figure 1 and appendix: 0.6).
    """
    if not 1 <= len(panels) <= MOST:
        raise ValueError(f"{len(panels)=} must be between 1 and {MOST}")
    for panel in panels:
        if not panel.weights.isfinite().all() or panel.weights.min() < 0:
            raise ValueError(f"{panel.title!r} has weights below 0, or that are no numbers")
    height, width = pixels.shape[:2]
    across = min(ACROSS, len(panels) + 1)
    down = math.ceil((len(panels) + 1) / across)
    scale = INCHES / max(height, width)
    size = across * (width * scale + 0.2), down * (height * scale + 0.5) + (0.4 if title else 0.1)
    grey = pixels.astype(np.float64).mean(-1) / 255
    with page(path, size) as figure:
        shown = list(figure.subplots(down, across, squeeze=False).flat)
        for axes in shown:
            axes.set_axis_off()
        shown[0].imshow(pixels.squeeze(), cmap="gray", vmin=0, vmax=255)
        for axes, panel in zip(shown[1:], panels, strict=False):
            weights = panel.weights.double()
            extent = (-0.5, width - 0.5, height - 0.5, -0.5)
            axes.imshow(grey, cmap="gray", vmin=0, vmax=1)
            most = float(weights.max()) or 1.0
            seen = 0.9 * (weights / most).sqrt().numpy()  # nothing hides what has no weight
            axes.imshow(
                weights.numpy(), cmap="plasma", vmin=0, vmax=most, alpha=seen, extent=extent
            )
            if outlined is not None:
                rows, columns = weights.shape
                fine = held(weights, outlined).repeat_interleave(8, 0).repeat_interleave(8, 1)
                y = (np.arange(8 * rows) + 0.5) * height / (8 * rows) - 0.5
                x = (np.arange(8 * columns) + 0.5) * width / (8 * columns) - 0.5
                if 0 < fine.sum() < fine.numel():
                    axes.contour(
                        x, y, fine.double().numpy(), levels=[0.5], colors="white", linewidths=0.9
                    )
            axes.set_title(drawable(panel.title), fontsize=9)
        if title:
            figure.suptitle(drawable(title), x=0.01, ha="left")


def held(weights: Float[Tensor, "Y X"], share: float) -> Tensor:
    """True at the fewest patches that hold at least `share` of the weight together."""
    flat = weights.double().flatten()
    order = flat.argsort(descending=True, stable=True)
    before = flat[order].cumsum(0) - flat[order]
    kept = before < share * flat.sum()
    found = kept.new_zeros(len(flat))
    found[order] = kept
    return found.reshape(weights.shape)
