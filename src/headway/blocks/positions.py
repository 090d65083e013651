"""Position encodings: x_t + PE(t), PE(t, 2i) = sin(t / 10000^(2i/P)), PE(t, 2i+1) = cos(same).

Attention treats its keys as a set, so without position encodings a sentence and its words in
another order are the same. Each position therefore gets a vector of its own, learned or made of
sines of P/2 wavelengths, which is added to the word's vector or concatenated with it.

>>> import torch
>>> from headway.blocks import SinusoidalTable
>>> SinusoidalTable(4)(torch.tensor([[0, 1, 2]]))[0].round(decimals=2)  # positions 0, 1, 2
tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
        [ 0.8400,  0.5400,  0.0100,  1.0000],
        [ 0.9100, -0.4200,  0.0200,  1.0000]])

The first two features turn fast, by 1 radian per position, the last two a hundred times slower.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from headway.machine import most_exact
from headway.shapes import Float, Int, Tensor


class LearnedTable(nn.Module):
    """One learned vector for each of `max_length` positions; longer sequences are an error.

    The last positions get fewer training examples than the first. Devlin et al. 2019, section 3.
    """

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        self.dim = dim
        self.max_length: int | None = max_length
        self.vectors = nn.Parameter(torch.zeros(max_length, dim))

    def init_weights(self) -> None:
        nn.init.normal_(self.vectors, std=0.02)

    def forward(self, positions: Int[Tensor, "#B T"]) -> Float[Tensor, "#B T P"]:
        return self.vectors[positions]


class SinusoidalTable(nn.Module):
    """PE(t, 2i) = sin(t / 10000^(2i/P)), PE(t, 2i+1) = cos(same), for sequences of any length.

    The angles are computed in float64 if the device has it: in float32, sin(t) is wrong in the
    fourth decimal at t = 5,000. Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"{dim=} must be even: sines and cosines are in pairs")
        self.dim = dim
        self.max_length: int | None = None

    def forward(self, positions: Int[Tensor, "#B T"]) -> Float[Tensor, "#B T P"]:
        exact = most_exact(positions.device)
        even = torch.arange(0, self.dim, 2, dtype=exact, device=positions.device)
        angle = positions[..., None] * torch.exp(even * (-math.log(10_000.0) / self.dim))
        pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # #B T P/2 2
        return pairs.flatten(-2).float()


@runtime_checkable
class Positions(Protocol):
    """Combines word vectors with position vectors.

    token_dim: the width of the word vectors in a model of width model_dim. max_length: the largest
    number of positions; None if there is no limit.
    """

    max_length: int | None

    def token_dim(self, model_dim: int) -> int: ...

    def __call__(
        self, x: Float[Tensor, "B T E"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]: ...


class Added(nn.Module):
    """x + table(positions): word vectors and position vectors share the D dimensions."""

    def __init__(self, table: LearnedTable | SinusoidalTable) -> None:
        super().__init__()
        self.table = table
        self.max_length = table.max_length

    def token_dim(self, model_dim: int) -> int:
        if self.table.dim != model_dim:
            raise ValueError(
                f"position vectors of width {self.table.dim} cannot be added to word vectors of "
                f"{model_dim=}: the widths must be equal"
            )
        return model_dim

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        vectors: Tensor = self.table(positions)
        return x + vectors


class Concatenated(nn.Module):
    """[x, table(positions)]: D - P dimensions for the word, then P for its position."""

    def __init__(self, table: LearnedTable | SinusoidalTable) -> None:
        super().__init__()
        self.table = table
        self.max_length = table.max_length

    def token_dim(self, model_dim: int) -> int:
        if self.table.dim >= model_dim:
            raise ValueError(
                f"position vectors of width {self.table.dim} leave no room for the word in "
                f"{model_dim=}: make them narrower"
            )
        return model_dim - self.table.dim

    def forward(
        self, x: Float[Tensor, "B T E"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        vectors = self.table(positions).to(x.dtype)
        return torch.cat((x, vectors.expand(x.shape[0], -1, -1)), dim=-1)


class NoPositions(nn.Module):
    """x unchanged: an encoder becomes permutation equivariant, a function of sets."""

    max_length: int | None = None

    def token_dim(self, model_dim: int) -> int:
        return model_dim

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        return x
