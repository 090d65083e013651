"""Telling the model where a patch stands: places in two dimensions."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import nn

from headway.blocks.positions import SinusoidalTable
from headway.shapes import Float, Tensor


@runtime_checkable
class GridPositions(Protocol):
    """Adds to each patch of a grid, row by row, the vector of its place."""

    def __call__(
        self, x: Float[Tensor, "B P D"], rows: int, columns: int
    ) -> Float[Tensor, "B P D"]: ...


class SinusoidalGrid(nn.Module):
    """x + [PE(row), PE(column)], D/2 dimensions each, with PE as `SinusoidalTable` has it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim % 4:
            raise ValueError(f"{dim=} must be a multiple of 4: sine and cosine of row and column")
        self.table = SinusoidalTable(dim // 2)

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        down = self.table(torch.arange(rows, device=x.device)[None])[0]  # rows D/2
        across = self.table(torch.arange(columns, device=x.device)[None])[0]  # columns D/2
        places = (down.repeat_interleave(columns, 0), across.repeat(rows, 1))
        return x + torch.cat(places, dim=1).to(x.dtype)


class LearnedGrid(nn.Module):
    """x + one trained vector for each place of a grid of rows x columns.

    For another grid they are read between the places, bicubically (Keys 1981, a = -0.75), as if the
    grid were an image that is made larger or smaller. Dosovitskiy et al. 2021, section 3.2; Caron
    et al. 2021, released code.
    """

    def __init__(self, rows: int, columns: int, dim: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.vectors = nn.Parameter(torch.zeros(rows * columns, dim))

    def init_weights(self) -> None:
        nn.init.normal_(self.vectors, std=0.02)

    def of(self, rows: int, columns: int) -> Float[Tensor, "P D"]:
        """The vectors of a grid of that size."""
        if (rows, columns) == (self.rows, self.columns):
            return self.vectors
        image = self.vectors.T.reshape(1, -1, self.rows, self.columns)  # P D -> 1 D Y X
        found = F.interpolate(image.float(), (rows, columns), mode="bicubic", align_corners=False)
        return found[0].flatten(1).T.to(self.vectors.dtype)

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        return x + self.of(rows, columns)


class NoGrid(nn.Module):
    """x: the encoder sees a bag of patches."""

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        return x
