"""Linear layers and embeddings whose matrix is stored in small numbers: the plain classes.

    int8, int4   y = x8 W^T + b,   x8[r, i] = q s[r, g],   q = round(x[r, i] / s[r, g])
    bfloat16     y = x W^T + b

Layers in int8 and int4 round their inputs too, so that the product of a group of `GROUP` inputs is
one of integers: to 255 steps between plus and minus the largest size in the group, s[r, g] = max
|x[r, g]| / 127. Each row has its own steps, so that its output does not depend on the other rows of
the batch. The gradient is that of the product without rounding (straight-through: Bengio et al.
2013, section 4).

>>> linear = nn.Linear(3, 2)
>>> small = Int8Linear.of(linear, Int8.encode(linear.weight.detach()))
>>> x = torch.tensor([[1.0, 2.0, 3.0]])
>>> bool((small(x) - linear(x)).abs().max() < 0.05)
True
"""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.transforms.quantize.numbers import GROUP, BFloat16, Int4, Int8, Numbers

LEAST = 1e-30
"""Of the largest size of a group of inputs, so that its steps are no zeros."""

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
        return {name: getattr(self, name) for name in self.numbers.names}


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


class CodedLinear(QuantizedLinear):
    """`QuantizedLinear` whose inputs are rounded to 8 bits, each row by itself."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return super().forward(rounded_inputs(input))


class Int8Linear(CodedLinear):
    """`CodedLinear` of int8 weights."""

    numbers = Int8


class Int4Linear(CodedLinear):
    """`CodedLinear` of int4 weights."""

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


def rounded_inputs(x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B I"]:
    """Round each group of `GROUP` inputs to 255 equal steps between plus and minus its largest."""
    width = x.shape[-1]
    padded = F.pad(x.detach().float(), (0, -width % GROUP))
    groups = padded.view(*x.shape[:-1], padded.shape[-1] // GROUP, GROUP)
    largest = groups.abs().amax(-1, keepdim=True).clamp_min_(LEAST)
    # not 127 / largest, for which torch multiplies by the rounded inverse
    codes = (groups * (torch.full_like(largest, 127) / largest)).round_()
    rounded = (codes * (largest / 127)).flatten(-2)[..., :width].to(x.dtype)
    return x + (rounded - x).detach() if x.requires_grad else rounded
