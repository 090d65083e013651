"""Telling the model where a token stands: attention itself does not know order."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from headway.machine import most_exact
from headway.shapes import Float, Int, Tensor


class LearnedTable(nn.Module):
    """One trained vector a position, up to `max_length`; past it there is nothing, so an error.

    The outer positions see fewer examples than the first. Devlin et al. 2019, section 3.
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
    """PE(t, 2i) = sin(t / 10000^(2i/P)), PE(t, 2i+1) = cos(same). Any length.

    The angles are taken in float64 where there is one: in float32, sin(t) is off in the fourth
    decimal at t = 5,000. Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"{dim=} must be even: sines and cosines come in pairs")
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
    """How position vectors join the word vectors.

    `token_dim` is the width left for the word; `max_length` the first length that is too long,
    None when any length will do.
    """

    max_length: int | None

    def token_dim(self, model_dim: int) -> int: ...

    def __call__(
        self, x: Float[Tensor, "B T E"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]: ...


class Added(nn.Module):
    """x + table(positions): words and positions share the D dimensions."""

    def __init__(self, table: LearnedTable | SinusoidalTable) -> None:
        super().__init__()
        self.table = table
        self.max_length = table.max_length

    def token_dim(self, model_dim: int) -> int:
        if self.table.dim != model_dim:
            raise ValueError(f"a table of width {self.table.dim} cannot be added to {model_dim=}")
        return model_dim

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        where: Tensor = self.table(positions)
        return x + where


class Concatenated(nn.Module):
    """[x, table(positions)]: the first D - P dimensions say what, the last P say where."""

    def __init__(self, table: LearnedTable | SinusoidalTable) -> None:
        super().__init__()
        self.table = table
        self.max_length = table.max_length

    def token_dim(self, model_dim: int) -> int:
        if self.table.dim >= model_dim:
            raise ValueError(f"a table of width {self.table.dim} leaves no room in {model_dim=}")
        return model_dim - self.table.dim

    def forward(
        self, x: Float[Tensor, "B T E"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        where = self.table(positions).to(x.dtype)
        return torch.cat((x, where.expand(x.shape[0], -1, -1)), dim=-1)


class NoPositions(nn.Module):
    """Nothing: the encoder becomes permutation equivariant, a function of sets."""

    max_length: int | None = None

    def token_dim(self, model_dim: int) -> int:
        return model_dim

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        return x
