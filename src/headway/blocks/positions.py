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

import math
from typing import Literal, Protocol

import torch
from torch import nn

from headway.base.devices import most_exact
from headway.base.shapes import Float, Int, Tensor

SinusoidLayout = Literal["pairs", "halves", "endpoint"]


class LearnedTable(nn.Module):
    """One learned vector for each of `max_length` positions; longer sequences are an error.

    The last positions get fewer training examples than the first. first: the row of the first
    token; the rows before it are not used (BART has two). Devlin et al. 2019, section 3.
    """

    def __init__(self, dim: int, max_length: int, first: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.max_length: int | None = max_length
        self.first = first
        self.vectors = nn.Parameter(torch.zeros(first + max_length, dim))

    def init_weights(self) -> None:
        nn.init.normal_(self.vectors, std=0.02)

    def forward(self, positions: Int[Tensor, "#B T"]) -> Float[Tensor, "#B T P"]:
        return self.vectors[self.first + positions]


class SinusoidalTable(nn.Module):
    """PE(t, 2i) = sin(t / 10000^(2i/P)), PE(t, 2i+1) = cos(same), for sequences of any length.

    The angles are computed in float64 if the device has it: in float32, sin(t) is wrong in the
    fourth decimal at t = 5,000. Vaswani et al. 2017, section 3.5.

    layout: "pairs" as above; "halves": all sines, then all cosines (Marian); "endpoint": halves
    with the angles t / 10000^(i / (P/2 - 1)), whose last one is t / 10000 (tensor2tensor, fairseq).
    first: the position t of the first token.
    """

    def __init__(self, dim: int, layout: SinusoidLayout = "pairs", first: int = 0) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"{dim=} must be even: sines and cosines are in pairs")
        if layout == "endpoint" and dim < 4:
            raise ValueError(f"{dim=} must be at least 4 for the frequencies of layout=endpoint")
        self.dim = dim
        self.layout = layout
        self.first = first
        self.max_length: int | None = None

    def forward(self, positions: Int[Tensor, "#B T"]) -> Float[Tensor, "#B T P"]:
        exact = most_exact(positions.device)
        even = torch.arange(0, self.dim, 2, dtype=exact, device=positions.device)
        last = self.dim - 2 if self.layout == "endpoint" else self.dim
        frequency = torch.exp(even * (-math.log(10_000.0) / last))
        angle = (self.first + positions[..., None]) * frequency
        axis = -1 if self.layout == "pairs" else -2  # #B T P/2 2, or #B T 2 P/2
        return torch.stack((angle.sin(), angle.cos()), dim=axis).flatten(-2).float()


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
        return x + vectors.to(x.dtype)


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
