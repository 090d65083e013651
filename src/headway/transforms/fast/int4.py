"""torch's product of a bfloat16 matrix and int4 codes, in the layout that it needs.

y[r, o] = sum over i of x[r, i] ((q[o, i] - 8) s[o, g] + c[o, g])
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Tensor, UInt8
from headway.transforms.quantize.numbers import Int4, paired

ROWS = 64
"""The product needs a multiple of this many output rows; zeros are added."""


class PackedInt4:
    """The int4 numbers of a matrix in the layout of torch's product."""

    def __init__(self, stored: Mapping[str, Tensor]) -> None:
        codes = Int4.codes(stored)
        self.shape = tuple(codes.shape)
        self._packed = _packed(codes)
        scale, centre = stored["weight_scale"], stored["weight_centre"]
        self._group = codes.shape[1] // scale.shape[1]
        grid = torch.stack((scale, centre), -1).transpose(0, 1)  # G O 2
        self._grid = F.pad(grid, (0, 0, 0, -len(scale) % ROWS)).contiguous()

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        rows, columns = self.shape
        padded = F.pad(x, (0, columns - x.shape[1])) if x.shape[1] < columns else x
        y: Tensor = torch._weight_int4pack_mm_for_cpu(
            padded.to(torch.bfloat16), self._packed, self._group, self._grid
        )
        return y[:, :rows].to(x.dtype)

    def codes(self) -> Tensor:
        """Return the stored codes, two a byte, that `__init__` was called with.

        The layout is a permutation of the codes. Packing the digits (base 16) of their positions
        shows where each one went.
        """
        rows, columns = self.shape
        padded = rows + -rows % ROWS
        positions = torch.arange(padded * columns).view(padded, columns)
        origin, digit = torch.zeros(padded * columns, dtype=torch.long), 0
        while 16**digit < padded * columns:
            digits = _packed((positions >> 4 * digit & 15).to(torch.uint8))
            origin += _nibbles(digits).long() << 4 * digit
            digit += 1
        codes = torch.empty(padded * columns, dtype=torch.uint8)
        codes[origin] = _nibbles(self._packed)
        return paired(codes.view(padded, columns)[:rows])


@cache
def int4_product_exists() -> bool:
    """Whether this torch has the product for this processor."""
    codes = torch.arange(ROWS * 32).remainder(16).view(ROWS, 32).to(torch.uint8)
    ones = torch.ones(ROWS, 1, dtype=torch.bfloat16)
    stored = {"weight_int4": paired(codes), "weight_scale": ones, "weight_centre": ones}
    x = torch.linspace(-1, 1, 32).view(1, 32)
    try:
        y = PackedInt4(stored)(x)
    except (RuntimeError, AttributeError):  # the operator is missing
        return False
    return bool(torch.allclose(y, x @ Int4.decode(stored).T, rtol=0.02, atol=0.1))


def _packed(codes: UInt8[Tensor, "O I"]) -> Tensor:
    padded = F.pad(codes, (0, 0, 0, -len(codes) % ROWS)).to(torch.int32)
    return torch._convert_weight_to_int4pack_for_cpu(padded, 1)


def _nibbles(packed: Tensor) -> UInt8[Tensor, " N"]:
    flat = packed.flatten()
    return torch.stack((flat & 15, flat >> 4), -1).flatten()
