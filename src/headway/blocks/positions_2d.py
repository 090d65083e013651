"""Position encodings in two dimensions: x_p + [PE(row of p), PE(column of p)] for a patch p.

Attention treats patches as a set, so each patch of the grid gets a vector for its position: sines
of row and column, each in half of the dimensions, or a learned vector for each cell of the grid.

>>> import torch
>>> from headway.blocks import SinusoidalGrid
>>> patches = torch.zeros(1, 4, 4)  # B P D: a grid of 2 x 2 patches
>>> SinusoidalGrid(4)(patches, rows=2, columns=2)[0].round(decimals=2)  # sin, cos of row and column
tensor([[0.0000, 1.0000, 0.0000, 1.0000],
        [0.0000, 1.0000, 0.8400, 0.5400],
        [0.8400, 0.5400, 0.0000, 1.0000],
        [0.8400, 0.5400, 0.8400, 0.5400]])
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.positions import SinusoidalTable


class GridPositions(Protocol):
    """Adds to each patch of a grid, row by row, the vector of its position."""

    def __call__(
        self, x: Float[Tensor, "B P D"], rows: int, columns: int
    ) -> Float[Tensor, "B P D"]: ...


class SinusoidalGrid(nn.Module):
    """x + [PE(row), PE(column)], D/2 dimensions each, with the PE of `SinusoidalTable`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim % 4:
            raise ValueError(f"{dim=} must be a multiple of 4: sine and cosine of row and column")
        self.table = SinusoidalTable(dim // 2)

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        down = self.table(torch.arange(rows, device=x.device)[None])[0]  # rows D/2
        across = self.table(torch.arange(columns, device=x.device)[None])[0]  # columns D/2
        vectors = (down.repeat_interleave(columns, 0), across.repeat(rows, 1))
        return x + torch.cat(vectors, dim=1).to(x.dtype)


class LearnedGrid(nn.Module):
    """x + one learned vector for each cell of a grid of rows x columns.

    For a grid of another size the vectors are interpolated bicubically (Keys 1981, a = -0.75), as
    if the grid were an image to resize. Dosovitskiy et al. 2021, section 3.2; Caron et al. 2021,
    released code.
    """

    def __init__(self, rows: int, columns: int, dim: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.vectors = nn.Parameter(torch.zeros(rows * columns, dim))

    def init_weights(self) -> None:
        nn.init.normal_(self.vectors, std=0.02)

    def of(self, rows: int, columns: int) -> Float[Tensor, "P D"]:
        """Return the vectors of a grid of rows x columns, interpolated if its size is another."""
        if (rows, columns) == (self.rows, self.columns):
            return self.vectors
        image = self.vectors.T.reshape(1, -1, self.rows, self.columns)  # P D -> 1 D Y X
        size = (rows, columns)
        resized = F.interpolate(image.float(), size, mode="bicubic", align_corners=False)
        return resized[0].flatten(1).T.to(self.vectors.dtype)

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        return x + self.of(rows, columns)


class NoGrid(nn.Module):
    """x unchanged: the encoder treats the patches as a set."""

    def forward(self, x: Float[Tensor, "B P D"], rows: int, columns: int) -> Float[Tensor, "B P D"]:
        return x
