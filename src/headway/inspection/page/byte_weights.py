"""A weight as one byte, and back.

A weight a between 0 and 1 is kept as round(255 sqrt(a)): small weights, which most are, get most of
the steps. The largest error is 0.004, and a row that sums to 1 still does within a few thousandths;
even steps would lose most of a row of small weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headway.errors import DataError
from headway.shapes import Float, Tensor

Codes = npt.NDArray[np.uint8]
Coding = dict[str, Any]
TOP = 255
MIDDLE = 128  # the code of 0 where weights have a sign
SLACK = 1e-3  # what rounding may add to a share of 1


def coding_of(layers: list[Float[Tensor, "H T S"]], normalised: bool, where: str) -> Coding:
    """{"kind": "sqrt", "scale": 1} for shares, else {"kind": "signed", "scale": greatest |a|}.

    DataError where a weight is no finite number, or where a share is below 0 or above 1.
    """
    greatest = 0.0
    for name, weights in zip(range(1, len(layers) + 1), layers, strict=True):
        if not weights.isfinite().all():
            raise DataError(f"layer {name} of {where!r} holds weights that are no finite numbers")
        if weights.numel():
            greatest = max(greatest, float(weights.abs().max()))
            if normalised and (float(weights.min()) < -SLACK or greatest > 1 + SLACK):
                raise DataError(f"layer {name} of {where!r} holds shares below 0 or above 1")
    if normalised:
        return {"kind": "sqrt", "scale": 1.0}
    return {"kind": "signed", "scale": greatest or 1.0}


def to_codes(weights: Float[Tensor, "*n"], coding: Coding, levels: int = TOP) -> Codes:
    """sqrt: round(255 sqrt(a / scale)); signed: 128 + round(127 sign(a) sqrt(|a| / scale)).

    levels: how many steps above 0 are told apart; fewer make a smaller file, and the codes stay
    between 0 and 255, so that whoever decodes need not know.
    """
    values = weights.detach().float().cpu().numpy() / coding["scale"]
    roots = np.sqrt(np.minimum(np.abs(values), 1))
    top = TOP if coding["kind"] == "sqrt" else MIDDLE - 1
    steps = min(levels, top)
    coarse = np.rint(np.rint(roots * steps) * (top / steps))
    if coding["kind"] == "signed":
        coarse = MIDDLE + np.copysign(coarse, values)
    return np.asarray(np.where(values < 0, 0, coarse) if top == TOP else coarse).astype(np.uint8)


def to_weights(codes: Codes, coding: Coding) -> npt.NDArray[np.float32]:
    """What the page makes of the codes again: scale (c / 255)^2, or its signed sister."""
    if coding["kind"] == "sqrt":
        roots = codes.astype(np.float32) / TOP
    else:
        roots = (codes.astype(np.float32) - MIDDLE) / (MIDDLE - 1)
    return np.asarray(np.sign(roots) * roots * roots * coding["scale"], dtype=np.float32)


def thumbnails(codes: Codes, signed: bool, side: int = 64) -> Codes:
    """H T S -> H h w, at most `side` high and wide: of all that falls together, the strongest."""
    small = codes
    for axis in (1, 2):
        length = small.shape[axis]
        parts = min(side, length)
        starts = np.arange(parts) * length // max(parts, 1)
        if length > parts:
            if signed:
                high = np.maximum.reduceat(small, starts, axis)
                low = np.minimum.reduceat(small, starts, axis)
                far = np.abs(high.astype(int) - MIDDLE) >= np.abs(low.astype(int) - MIDDLE)
                small = np.where(far, high, low)
            else:
                small = np.maximum.reduceat(small, starts, axis)
    return small
