"""Positions of image patches inside attention: scores depend on distances in rows and in columns.

`RelativeGrid` adds a learned number for each head and each pair of distances between the patch of
the query and that of the key. `RotaryGrid` rotates queries and keys: half of the pairs of
dimensions by the row of the patch, half by its column.

>>> import torch
>>> from headway.attention import RelativeGrid, RotaryGrid
>>> positions = RelativeGrid(rows=1, columns=2, num_heads=1)
>>> _ = positions.table.data.copy_(torch.arange(6.0)[:, None])
>>> tokens = torch.arange(3)[None]  # [CLS], two patches
>>> positions.bias(tokens, num_keys=3)[0, 0].detach()
tensor([[5., 3., 3.],
        [4., 1., 0.],
        [4., 2., 1.]])
>>> cos, _ = RotaryGrid(rows=1, columns=2, before=1, head_dim=4).cos_sin(tokens, torch.float32)
>>> cos.shape, cos[0, 0, 0]  # 1 1 T K/2: angles of row and column; [CLS] is not rotated
(torch.Size([1, 1, 3, 2]), tensor([1., 1.]))
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention.relative import AttentionPositions, CosSin, Rotary
from headway.base.devices import most_exact
from headway.base.shapes import Float, Int, Tensor

OF_CLASS_TOKEN = 3  # rows of the table: from [CLS], to [CLS], from [CLS] to [CLS]


class RelativeGrid(AttentionPositions):
    """A learned bias for each head and pair of distances in a grid of patches after [CLS].

    table: row (r + R - 1) (2 C - 1) + c + C - 1 is for a query r rows below and c columns to the
    right of the key, in a grid of R rows and C columns; the last three are for [CLS]. A square grid
    of another size gets numbers that are interpolated bilinearly. Bao et al. 2022 (BEiT), released
    code.
    """

    def __init__(self, rows: int, columns: int, num_heads: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        distances = (2 * rows - 1) * (2 * columns - 1)
        self.table = nn.Parameter(torch.zeros(distances + OF_CLASS_TOKEN, num_heads))

    def init_weights(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"]:
        rows, columns = grid_of(num_keys - 1, self.rows, self.columns)
        table = self._table(rows, columns)
        chosen = table[_numbers(rows, columns, table.device)[queries]]  # #B T S H
        return chosen.permute(0, 3, 1, 2)

    def _table(self, rows: int, columns: int) -> Float[Tensor, "_ H"]:
        """Return the table of a grid of rows x columns, interpolated if its size is another."""
        if (rows, columns) == (self.rows, self.columns):
            return self.table
        between, ends = self.table[:-OF_CLASS_TOKEN], self.table[-OF_CLASS_TOKEN:]
        image = between.T.reshape(1, -1, 2 * self.rows - 1, 2 * self.columns - 1)
        size = (2 * rows - 1, 2 * columns - 1)
        resized = F.interpolate(image.float(), size, mode="bilinear", align_corners=False)
        return torch.cat((resized[0].flatten(1).T.to(ends.dtype), ends))


def _numbers(rows: int, columns: int, device: torch.device) -> Int[Tensor, "T T"]:
    """Return the row of the table for each query and key: [CLS] and the patches, row by row."""
    cell = torch.arange(rows * columns, device=device)
    row, column = cell // columns, cell % columns
    down = row[:, None] - row + rows - 1
    across = column[:, None] - column + columns - 1
    distances = (2 * rows - 1) * (2 * columns - 1)
    numbers = F.pad(down * (2 * columns - 1) + across, (1, 0, 1, 0))
    numbers[0], numbers[:, 0], numbers[0, 0] = distances, distances + 1, distances + 2
    return numbers


class RotaryGrid(Rotary):
    """Rotary positions of the patches of a grid; the `before` tokens before them are not rotated.

    The centre of a patch is at y and x from -1 to 1 in the image. Pair i of the first half of the
    pairs of dimensions is rotated by 2 pi y / base^(4 i / K), of the second half by x in place of
    y. Siméoni et al. 2025 (DINOv3), released code.
    """

    def __init__(
        self, rows: int, columns: int, before: int, head_dim: int, base: float = 100.0
    ) -> None:
        super().__init__(head_dim, base)
        if head_dim % 4:
            raise ValueError(f"{head_dim=} must be a multiple of 4: pairs for rows and for columns")
        self.rows, self.columns, self.before = rows, columns, before

    def cos_sin(self, positions: Int[Tensor, "#B T"], dtype: torch.dtype) -> CosSin:
        rows, columns = grid_of(positions.shape[-1] - self.before, self.rows, self.columns)
        device = positions.device
        row, column, even = (
            torch.arange(0, end, step, dtype=most_exact(device), device=device)
            for end, step in ((rows, 1), (columns, 1), (self.head_dim, 4))
        )
        y, x = (2 * row + 1) / rows - 1, (2 * column + 1) / columns - 1
        centres = torch.cartesian_prod(y, x)  # P 2
        frequency = torch.exp(even * (-math.log(self.base) / self.head_dim))
        angle = 2 * math.pi * centres[:, :, None] * frequency  # P 2 K/4
        angle = F.pad(angle.flatten(1), (0, 0, self.before, 0))[None, None]  # 1 1 T K/2
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(dtype), angle.sin().to(dtype)


def grid_of(patches: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of the grid of an image: `rows` and `columns`, those of the
    images of training, if it has as many patches, or a square.

    Raises ValueError for other numbers of patches.
    """
    side = math.isqrt(patches)
    if patches == rows * columns:
        return rows, columns
    if side * side != patches:
        raise ValueError(
            f"{patches} patches are not the grid of {rows} x {columns} of this model's positions "
            "and not a square grid: resize the image"
        )
    return side, side
