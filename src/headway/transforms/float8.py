"""Training in float8: the products of the linear layers inside a model's blocks.

    y = x W^T + b        x and W in e4m3
    dx = dy W            dy in e5m2, W in e4m3
    dW = dy^T x          dy in e5m2, x in e4m3

e4m3 has 4 exponent and 3 fraction bits, for numbers up to 448; e5m2 has 5 and 2, for numbers up to
57,344: gradients have the wider range. Micikevicius et al. 2022, section 3. Each tensor is scaled
at each use so that its largest magnitude is the largest number of its dtype. Sums are made in
float32 and returned in bfloat16; the weights that the optimizer changes, and their gradients, stay
in float32. Embeddings, output projections and heads are outside the blocks and are not changed.

NVIDIA GPUs of compute capability 8.9 or higher multiply float8 (`headway.base.devices`). A CPU
computes the same products slowly, for tests: outside autocast, in which it rounds their factors to
bfloat16 first.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Float, Shaped, Tensor
from headway.transforms.fast.linear import FastLinear, FastLoRALinear
from headway.transforms.lora import LoRALinear
from headway.transforms.quantize import QuantizedLinear
from headway.transforms.stacks import stacked_blocks
from headway.transforms.twins import add_twins

M = TypeVar("M", bound=nn.Module)

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
MULTIPLE = 16
"""The matrices of a GPU's float8 product have sizes that are multiples of it; the number of rows of
its first matrix is free."""


class Scaled(NamedTuple):
    """A matrix `numbers` x `scale`: float8 numbers and one float32 scale for all."""

    numbers: Shaped[Tensor, "M K"]
    scale: Float[Tensor, ""]

    def transposed(self) -> Scaled:
        """Return K M', where M' >= M is a multiple of 16, and the columns after M are 0.

        A product over the rows of a batch needs it: their number varies, and zeros add nothing.
        """
        rows = self.numbers.shape[0]
        # as bytes, which every device can pad; the byte 0 is the number 0
        columns = self.numbers.view(torch.uint8).t()
        padded = F.pad(columns, (0, _padded(rows) - rows)).contiguous()
        return Scaled(padded.view(self.numbers.dtype), self.scale)

    def value(self) -> Float[Tensor, "M K"]:
        """Return the matrix in float32."""
        return self.numbers.float() * self.scale


def scaled(x: Float[Tensor, "M K"], dtype: torch.dtype) -> Scaled:
    """Round to float8: numbers = round(x / scale), scale = max |x| / the largest number of dtype.

    If a number of x is infinite or NaN, so is the scale, and with it every product: the conversion
    to e4m3 alone would make 448 of infinity.
    """
    largest = torch.finfo(dtype).max
    # 2^-100 is above 57,344 / the largest float32, and no gradient of a training that works is
    # below it. Both numbers are literals, since the tracer of torch 2.13.0 fails at the second use
    # of a global one (pytorch/pytorch issue 193194).
    amax = torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32).clamp(min=2.0**-100)
    # For x in bfloat16 the quotient is rounded to bfloat16 first: in float32 it would be written
    # and read with twice the bytes, for ties between two numbers of 3 or 4 bits.
    return Scaled((x * (largest / amax)).to(dtype).contiguous(), amax / largest)


def product(
    a: Scaled, b: Scaled, bias: Float[Tensor, " N"] | None = None, *, fast_sums: bool = False
) -> Float[Tensor, "M N"]:
    """Return a b^T + bias in bfloat16, outside autograd.

    fast_sums: less exact sums on a GPU of the Hopper generation, where they are faster.
    """
    in_bfloat16 = None if bias is None else bias.to(torch.bfloat16)
    return torch._scaled_mm(
        a.numbers,
        b.numbers.t(),
        a.scale,
        b.scale,
        bias=in_bfloat16,
        out_dtype=torch.bfloat16,
        use_fast_accum=fast_sums,
    )


def plain_products(
    x: Float[Tensor, "M I"], weight: Float[Tensor, "O I"], dy: Float[Tensor, "M O"]
) -> tuple[Float[Tensor, "M O"], Float[Tensor, "M I"], Float[Tensor, "O I"]]:
    """Return y, dx and dW by the equations: rounded to float8, multiplied in float32."""
    x, weight, dy = scaled(x, E4M3).value(), scaled(weight, E4M3).value(), scaled(dy, E5M2).value()
    return x @ weight.T, dy @ weight, dy.T @ x


class _Float8Product(torch.autograd.Function):
    """y = x W^T + b and its gradients by float8 products.

    Sums of the forward pass are the fast ones, those of gradients the exact ones, as in torchao:
    gradients have fewer bits already.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x8, weight8 = scaled(x, E4M3), scaled(weight, E4M3)
        wants_x, wants_weight, _ = ctx.needs_input_grad
        nothing = (None, None)
        kept_x = x8 if wants_weight else nothing  # not for the frozen matrix of an adapter
        ctx.save_for_backward(*kept_x, *(weight8 if wants_x else nothing))
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return product(x8, weight8, bias, fast_sums=True)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        numbers, scale, weight_numbers, weight_scale = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.dtypes
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        dy8 = scaled(dy, E5M2)
        dx = dweight = dbias = None
        if wants_x:
            dx = product(dy8, Scaled(weight_numbers, weight_scale).transposed()).to(of_x)
        if wants_weight:
            x8 = Scaled(numbers, scale)
            dweight = product(dy8.transposed(), x8.transposed()).to(of_weight)
        if wants_bias:
            dbias = dy.sum(0).to(of_bias)
        return dx, dweight, dbias


class Float8Linear(nn.Linear):
    """y = x W^T + b in float8 while training, and as `nn.Linear` in evaluation and without
    gradients. Its sizes are multiples of 16."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if not (self.training and torch.is_grad_enabled()):
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        y: Tensor = _Float8Product.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        y = y.view(*input.shape[:-1], self.out_features)
        return y if torch.is_autocast_enabled(input.device.type) else y.to(input.dtype)


class Float8LoRALinear(LoRALinear, Float8Linear):
    """`LoRALinear`, whose product with W is in float8; those of the adapters are not."""


FLOAT8: dict[type[nn.Module], type[Float8Linear]] = {
    nn.Linear: Float8Linear,
    FastLinear: Float8Linear,
    LoRALinear: Float8LoRALinear,
    FastLoRALinear: Float8LoRALinear,
}
"""Class of a linear layer -> the class that trains in float8."""

add_twins({nn.Linear: Float8Linear, LoRALinear: Float8LoRALinear})


def float8(model: M) -> M:
    """Let the linear layers of the model's blocks train in float8, in place; return the model.

    Parameters, their names and evaluation stay as they are. Apply it after `lora` and `fast`;
    twice is the same as once. Layers with a size that is not a multiple of 16, quantised layers
    and layers of other classes are not changed (`not_in_float8`). UsageError if no layer can be.
    """
    for layer in _linear_layers(model).values():
        if _obstacle(layer) is None:
            layer.__class__ = FLOAT8.get(type(layer), type(layer))
    if not any(isinstance(layer, Float8Linear) for layer in _linear_layers(model).values()):
        raise UsageError(
            f"float8 has nothing to multiply: {not_in_float8(model)}", hint="--dtype bfloat16"
        )
    return model


def not_in_float8(model: nn.Module) -> str | None:
    """Return how many linear layers of the blocks do not train in float8, and why, or None."""
    layers = _linear_layers(model)
    if not layers:
        return "this model has no blocks of attention"
    obstacles = {name: _obstacle(layer) for name, layer in layers.items()}
    left = {name: reason for name, reason in obstacles.items() if reason is not None}
    if not left:
        return None
    kinds = sorted(set(left.values()))
    counts = (f"{sum(kind == reason for reason in left.values()):,} {kind}" for kind in kinds)
    first = next(iter(left))
    shape = f"{layers[first].out_features} x {layers[first].in_features}"
    return (
        f"of {len(layers):,} linear layers in the blocks, {' and '.join(counts)} "
        f"(the first is {first}, {shape})"
    )


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers inside the blocks of the model's stacks, by name."""
    inside = {id(module) for block in stacked_blocks(model) for module in block.modules()}
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and id(module) in inside
    }


def _obstacle(layer: nn.Linear) -> str | None:
    """Return why the layer is not multiplied in float8, or None."""
    if isinstance(layer, QuantizedLinear):
        return "are quantised"
    if layer.in_features % MULTIPLE or layer.out_features % MULTIPLE:
        return f"have a size that is not a multiple of {MULTIPLE}"
    is_known = isinstance(layer, Float8Linear) or type(layer) in FLOAT8
    return None if is_known else "are of another class than nn.Linear"


def _padded(rows: int) -> int:
    """Return the least multiple of 16 that is at least `rows`."""
    return -(-rows // MULTIPLE) * MULTIPLE
