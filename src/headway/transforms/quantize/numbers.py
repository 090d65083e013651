"""Small numbers: how a float32 matrix W (O I) is stored as int8, int4 or bfloat16, and read again.

    int8       W[o, i] = q[o, i] s[o, g],   q in -127 ... 127,   s[o, g] = max |W[o, g]| / 127
    int4       W[o, i] = (q[o, i] - 8) s[o, g] + c[o, g],   q in 0 ... 15
    bfloat16   W[o, i] = w[o, i],   8 of float32's 24 significant bits

g is the group of consecutive inputs that i belongs to. Jacob et al. 2018, section 2.1; a scale for
each group of a row: Frantar et al. 2023, section 4.

>>> weight = torch.tensor([[1.0, -0.5, 0.25, 0.0]])
>>> stored = Int8.encode(weight)
>>> stored["weight_int8"].tolist()
[[127, -64, 32, 0]]
>>> Int8.decode(stored).sub(weight).abs().max().item() < 1 / 127 / 2
True
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Tensor, UInt8

GROUP = 32
"""Consecutive inputs that share a scale in int8, and by default in int4."""
GROUPS = (32, 64, 128)
"""Group sizes of int4: multiples of `GROUP`."""

NumberName = Literal["int8", "int4", "bfloat16"]
Layouts = dict[str, tuple[torch.dtype, tuple[int, ...]]]


class Numbers(ABC):
    """A way to store a matrix.

    names: of its tensors, each with one row for each row of W.
    """

    name: ClassVar[NumberName]
    names: ClassVar[tuple[str, ...]]

    @staticmethod
    @abstractmethod
    def encode(weight: Float[Tensor, "O I"], group: int = GROUP) -> dict[str, Tensor]:
        """Round a matrix to the nearest numbers of this kind. group: only for int4."""

    @staticmethod
    @abstractmethod
    def decode(stored: Mapping[str, Tensor]) -> Float[Tensor, "*R I"]:
        """Return the float32 matrix, or any of its rows, of the stored tensors."""

    @classmethod
    @abstractmethod
    def shapes(cls, rows: int, columns: int, group: int) -> Layouts:
        """Return dtype and shape of the stored tensors. group: as in `encode`."""


class Int8(Numbers):
    """One byte for each number, and a scale in bfloat16 for each group of `GROUP` of a row.

    Columns are padded to a multiple of the group.
    """

    name = "int8"
    names = ("weight_int8", "weight_scale")

    @staticmethod
    def encode(weight: Float[Tensor, "O I"], group: int = GROUP) -> dict[str, Tensor]:
        del group
        padded = F.pad(weight, (0, -weight.shape[1] % GROUP))
        groups = padded.view(len(weight), -1, GROUP)
        scale = _positive(groups.abs().amax(-1) / 127).to(torch.bfloat16)
        codes = (groups / scale.float()[..., None]).round_().clamp_(-127, 127)
        return {"weight_int8": codes.to(torch.int8).flatten(1), "weight_scale": scale}

    @staticmethod
    def decode(stored: Mapping[str, Tensor]) -> Float[Tensor, "*R I"]:
        scale = stored["weight_scale"].float()
        codes = stored["weight_int8"]
        return (codes.view(*scale.shape, GROUP) * scale[..., None]).view(codes.shape)

    @classmethod
    def shapes(cls, rows: int, columns: int, group: int) -> Layouts:
        groups = -(-columns // GROUP)
        return {
            "weight_int8": (torch.int8, (rows, groups * GROUP)),
            "weight_scale": (torch.bfloat16, (rows, groups)),
        }


class Int4(Numbers):
    """Half a byte for each number; scale and centre, in bfloat16, for each group of a row.

    Two numbers share a byte: that of the even column is the lower half. Columns are padded to a
    multiple of the group.
    """

    name = "int4"
    names = ("weight_int4", "weight_scale", "weight_centre")

    @staticmethod
    def encode(weight: Float[Tensor, "O I"], group: int = GROUP) -> dict[str, Tensor]:
        scale, centre = int4_grid(weight, group)
        padded = F.pad(weight, (0, -weight.shape[1] % group))
        codes = int4_codes(padded.view(len(weight), -1, group), scale, centre).flatten(1)
        return {"weight_int4": paired(codes), "weight_scale": scale, "weight_centre": centre}

    @staticmethod
    def codes(stored: Mapping[str, Tensor]) -> UInt8[Tensor, "*R I"]:
        """Return the codes 0 ... 15, with the padded columns."""
        halves = stored["weight_int4"]
        return torch.stack((halves & 15, halves >> 4), -1).flatten(-2)

    @staticmethod
    def decode(stored: Mapping[str, Tensor]) -> Float[Tensor, "*R I"]:
        scale, centre = stored["weight_scale"].float(), stored["weight_centre"].float()
        codes = Int4.codes(stored).float()
        groups = codes.view(*scale.shape, -1)
        return ((groups - 8) * scale[..., None] + centre[..., None]).view(codes.shape)

    @staticmethod
    def group_of(codes: Tensor, scale: Tensor) -> int:
        """Return the group size of stored tensors, or the default if no group has these shapes."""
        groups = scale.shape[1] if scale.ndim == codes.ndim == 2 else 0
        group = 2 * codes.shape[1] // groups if groups else GROUP
        return group if group in GROUPS else GROUP

    @classmethod
    def shapes(cls, rows: int, columns: int, group: int) -> Layouts:
        groups = -(-columns // group)
        return {
            "weight_int4": (torch.uint8, (rows, groups * group // 2)),
            "weight_scale": (torch.bfloat16, (rows, groups)),
            "weight_centre": (torch.bfloat16, (rows, groups)),
        }


class BFloat16(Numbers):
    """Two bytes for each number: float32 without its 16 lowest bits."""

    name = "bfloat16"
    names = ("weight_bfloat16",)

    @staticmethod
    def encode(weight: Float[Tensor, "O I"], group: int = GROUP) -> dict[str, Tensor]:
        del group
        return {"weight_bfloat16": weight.to(torch.bfloat16)}

    @staticmethod
    def decode(stored: Mapping[str, Tensor]) -> Float[Tensor, "*R I"]:
        return stored["weight_bfloat16"].float()

    @classmethod
    def shapes(cls, rows: int, columns: int, group: int) -> Layouts:
        return {"weight_bfloat16": (torch.bfloat16, (rows, columns))}


NUMBERS: Mapping[str, type[Numbers]] = {kind.name: kind for kind in (Int8, Int4, BFloat16)}


def paired(codes: UInt8[Tensor, "O I"]) -> UInt8[Tensor, "O _"]:
    """Return codes 0 ... 15 two a byte."""
    low, high = codes[:, 0::2].to(torch.uint8), codes[:, 1::2].to(torch.uint8)
    return low | high << 4


def int4_grid(weight: Float[Tensor, "O I"], group: int) -> tuple[Tensor, Tensor]:
    """Return scale and centre (O G, bfloat16) of 16 equal steps from each group's minimum to its
    maximum."""
    # the last value again, which does not widen the range of the last group
    padding = weight[:, -1:].expand(-1, -weight.shape[1] % group)
    groups = torch.cat((weight, padding), 1).view(len(weight), -1, group)
    low, high = groups.aminmax(dim=-1)
    scale = _positive((high - low) / 15).to(torch.bfloat16)
    return scale, (low + 8 * scale.float()).to(torch.bfloat16)


def int4_codes(
    weight: Float[Tensor, "O G g"], scale: Float[Tensor, "O G"], centre: Float[Tensor, "O G"]
) -> UInt8[Tensor, "O G g"]:
    """Return the nearest codes 0 ... 15 of numbers in groups."""
    steps = (weight - centre.float()[..., None]) / scale.float()[..., None]
    return (steps.round_() + 8).clamp_(0, 15).to(torch.uint8)


def _positive(scale: Tensor) -> Tensor:
    """A row or a group of equal numbers has range 0; its codes are 0 with any scale."""
    return scale.clamp_min(torch.finfo(torch.float32).tiny * 2**24)
