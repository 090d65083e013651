"""Linear layers and embeddings whose matrix is stored in small numbers: the plain classes.

    int8             y = x8 W8^T + b,   x8[r] = c[r] + round(127 (x[r] - c[r]) / h[r]) h[r] / 127
    int4, bfloat16   y = x W^T + b

int8 rounds the inputs too, so that the product is one of integers: each row to 255 steps around its
centre c[r] = (max + min) / 2, of half-width h[r] = (max - min) / 2. Each row has its own, so that
its output does not depend on the other rows of the batch. With scales t of the columns
(`smoothing.py`) the inputs are x t, and W8 t is the matrix that the numbers stand for. The gradient
is that of the product without rounding (straight-through: Bengio et al. 2013, section 4).

>>> linear = nn.Linear(3, 2)
>>> small = Int8Linear.of(linear, Int8.encode(linear.weight.detach()))
>>> x = torch.tensor([[1.0, 2.0, 3.0]])
>>> bool((small(x) - linear(x)).abs().max() < 0.05)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.transforms.quantize.numbers import BFloat16, Int4, Int8, Numbers

L = TypeVar("L", bound="QuantizedLinear")
E = TypeVar("E", bound="QuantizedEmbedding")


class _Stored(nn.Module):
    """Keeps the tensors of a matrix as parameters that are not trained, without `weight` itself."""

    numbers: ClassVar[type[Numbers]]

    def keep(self, stored: Mapping[str, Tensor]) -> None:
        """Register the stored tensors; those that are parameters already stay shared."""
        for name, value in stored.items():
            if not isinstance(value, nn.Parameter):
                value = nn.Parameter(value, requires_grad=False)
            self.register_parameter(name, value)

    def stored(self) -> dict[str, Tensor]:
        """Return the stored tensors by name."""
        names = self.numbers.names
        if self.numbers.column_name in self._parameters:
            names = (*names, self.numbers.column_name)
        return {name: getattr(self, name) for name in names}


class QuantizedLinear(nn.Linear, _Stored):
    """y = x W^T + b, where `weight` is computed from the stored numbers at each use.

    shared: whether an embedding or another layer has the same matrix.
    """

    shared = False

    def __init__(
        self, in_features: int, out_features: int, bias: nn.Parameter | None, **stored: Tensor
    ) -> None:
        nn.Module.__init__(self)  # nn.Linear's own would make a float32 matrix
        self.in_features, self.out_features = in_features, out_features
        self.register_parameter("bias", bias)
        self.keep(stored)

    @classmethod
    def of(cls: type[L], linear: nn.Linear, stored: Mapping[str, Tensor]) -> L:
        """Return the layer for the bias of `linear` and the stored numbers of its matrix."""
        layer = cls(linear.in_features, linear.out_features, linear.bias, **stored)
        return layer.train(linear.training)

    def restore_codes(self) -> None:
        """Keep the stored numbers in the parameters; only a fast twin may have them elsewhere."""

    @property
    def weight(self) -> Float[Tensor, "O I"]:  # type: ignore[override]
        return self.numbers.decode(self.stored())[:, : self.in_features]

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return F.linear(input, self.weight.to(input.dtype), self.bias)


class Int8Linear(QuantizedLinear):
    """`QuantizedLinear` of int8 weights, whose inputs are rounded to 8 bits, each row by itself."""

    numbers = Int8

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        stored = self.stored()
        columns = stored.get("weight_columns")
        x = rounded_rows(input if columns is None else input * columns.to(input.dtype))
        return F.linear(x, Int8.rows(stored).to(input.dtype), self.bias)


class Int4Linear(QuantizedLinear):
    """`QuantizedLinear` of int4 weights."""

    numbers = Int4


class BFloat16Linear(QuantizedLinear):
    """`QuantizedLinear` of bfloat16 weights."""

    numbers = BFloat16


class QuantizedEmbedding(nn.Embedding, _Stored):
    """Looks up rows of a matrix that is stored in small numbers."""

    def __init__(self, num_embeddings: int, embedding_dim: int, **stored: Tensor) -> None:
        nn.Module.__init__(self)  # nn.Embedding's own would make a float32 matrix
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = self.max_norm = None
        self.keep(stored)

    @classmethod
    def of(cls: type[E], embedding: nn.Embedding, stored: Mapping[str, Tensor]) -> E:
        """Return the layer for the stored numbers of the table of `embedding`."""
        layer = cls(embedding.num_embeddings, embedding.embedding_dim, **stored)
        return layer.train(embedding.training)

    @property
    def weight(self) -> Float[Tensor, "V D"]:  # type: ignore[override]
        return self.numbers.decode(self.stored())[:, : self.embedding_dim]

    def forward(self, input: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        rows = {name: value[input] for name, value in self.stored().items()}
        return self.numbers.decode(rows)[..., : self.embedding_dim]


class Int8Embedding(QuantizedEmbedding):
    """`QuantizedEmbedding` of int8 numbers."""

    numbers = Int8


class Int4Embedding(QuantizedEmbedding):
    """`QuantizedEmbedding` of int4 numbers."""

    numbers = Int4


class BFloat16Embedding(QuantizedEmbedding):
    """`QuantizedEmbedding` of bfloat16 numbers."""

    numbers = BFloat16


LINEARS: dict[str, type[QuantizedLinear]] = {
    layer.numbers.name: layer for layer in (Int8Linear, Int4Linear, BFloat16Linear)
}
EMBEDDINGS: dict[str, type[QuantizedEmbedding]] = {
    layer.numbers.name: layer for layer in (Int8Embedding, Int4Embedding, BFloat16Embedding)
}


def rounded_rows(x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B I"]:
    """Round each row to 255 equal steps from its minimum to its maximum."""
    centre, half = row_range(x)
    rounded = centre + ((x - centre) / half * 127).round() / 127 * half
    return x + (rounded - x).detach() if x.requires_grad else rounded


def row_range(x: Float[Tensor, "*B I"]) -> tuple[Float[Tensor, "*B 1"], Float[Tensor, "*B 1"]]:
    """Return the centre of each row, and half the distance from its minimum to its maximum.

    The distance is above 0 also for a row of equal numbers.
    """
    # two passes: aminmax is 10 times slower on a CPU
    high, low = x.detach().amax(-1, keepdim=True), x.detach().amin(-1, keepdim=True)
    half = ((high - low) / 2).clamp_min_(torch.finfo(torch.float32).tiny * 2**24)
    return (high + low) / 2, half
