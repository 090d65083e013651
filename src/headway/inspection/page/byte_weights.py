"""Coding of weights as one byte each.

A weight a between 0 and 1 has the code round(255 sqrt(a)), so that small weights, which are most,
have most of the codes. The largest error is 0.004, and the sum of a row changes by a few
thousandths; linear codes would lose most of a row of small weights.
"""

from typing import TypedDict

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor

Codes = npt.NDArray[np.uint8]


class Coding(TypedDict):
    """How the page decodes weights: from roots ("sqrt") or with a sign, and the largest weight."""

    kind: str
    scale: float


TOP = 255
MIDDLE = 128  # code of 0 if weights have a sign
SIDE = 64  # rows and columns of a thumbnail
SLACK = 1e-3  # rounding error that is allowed in weights from 0 to 1


def coding_of(layers: list[Float[Tensor, "H T S"]], normalised: bool, where: str) -> Coding:
    """Return {"kind": "sqrt", "scale": 1} for normalised weights, otherwise
    {"kind": "signed", "scale": maximum of |a|}.

    Raises DataError for a weight that is not finite, and for a normalised one below 0 or above 1.
    """
    greatest = 0.0
    for name, weights in zip(range(1, len(layers) + 1), layers, strict=True):
        if not weights.isfinite().all():
            raise DataError(
                f"layer {name} of {where!r} has weights that are not finite (NaN or infinite)"
            )
        if weights.numel():
            greatest = max(greatest, float(weights.abs().max()))
            if normalised and (float(weights.min()) < -SLACK or greatest > 1 + SLACK):
                raise DataError(
                    f"layer {name} of {where!r} has attention weights below 0 or above 1"
                )
    if normalised:
        return {"kind": "sqrt", "scale": 1.0}
    return {"kind": "signed", "scale": greatest or 1.0}


def to_codes(weights: Float[Tensor, "*n"], coding: Coding, levels: int = TOP) -> Codes:
    """Return the codes: round(255 sqrt(a / scale)) for kind sqrt,
    128 + round(127 sign(a) sqrt(|a| / scale)) for kind signed.

    levels: the number of different codes above 0. Fewer levels give a smaller file; codes are still
    between 0 and 255, so that decoding does not depend on it.
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
    """Return the weights as the page decodes them: scale (c / 255)^2, or with a sign."""
    if coding["kind"] == "sqrt":
        roots = codes.astype(np.float32) / TOP
    else:
        roots = (codes.astype(np.float32) - MIDDLE) / (MIDDLE - 1)
    return np.asarray(np.sign(roots) * roots * roots * coding["scale"], dtype=np.float32)


def thumbnails(codes: Codes, signed: bool) -> Codes:
    """Max-pool H T S to H h w, with h and w at most `SIDE`."""
    small = codes
    for axis in (1, 2):
        length = small.shape[axis]
        parts = min(SIDE, length)
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
