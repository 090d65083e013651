"""A linear layer for training on a GPU: the gradient of its bias in a pass at the memory's speed.

torch sums the rows of dy at a third of it, a twentieth of a training step of GPT-2. With an
activation after the layer, the pass that computes its gradient sums the rows, too. The gradient of
the matrix leaves the product in the dtype of the matrix: under autocast torch rounds it to bfloat16
and converts that in a pass of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from headway.base.shapes import Float, Tensor
from headway.transforms.kernels import Activation, activation_name

WARPS = 4


class _Tile(NamedTuple):
    """The part of a matrix that a program reads at a time, and about how many programs there are. A
    GPU runs several hundred at once. The fastest ones on an H200 for the shapes of GPT-2 medium."""

    rows: int
    columns: int
    programs: int

    def division(self, num_rows: int, size: int) -> tuple[int, int, int]:
        """Return the number of blocks of columns, of parts of the rows, and of steps in each
        part."""
        blocks = triton.cdiv(size, self.columns)
        steps = triton.cdiv(triton.cdiv(num_rows, self.rows), max(1, self.programs // blocks))
        return blocks, triton.cdiv(num_rows, self.rows * steps), steps


OF_SUMS, OF_ACTIVATION = _Tile(16, 128, 1024), _Tile(8, 256, 2048)


def linear_for_training(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"],
    dtype: torch.dtype,
    activation: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b, multiplied in this dtype; or activation(x W^T + b) for an activation that
    has a name in `activation_name`.

    With y = x W^T + b:  dx = dy W;  dW = dy^T x;  db = the sum of dy over all rows.
    """
    return _Linear.apply(x, weight, bias, dtype, activation)  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        dtype: torch.dtype,
        activation: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        ctx.activation = None if activation is None else activation_name(activation)
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        with torch.autocast(x.device.type, enabled=False):
            y = F.linear(x, weight, bias)
            ctx.save_for_backward(x, weight, None if activation is None else y)
            return y if activation is None else activation(y)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.dtypes
        wants_x, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        dx = dweight = sums = None
        rows = grad.reshape(-1, grad.shape[-1])
        if ctx.activation is not None:
            rows, sums = _before_activation(rows, y.view(rows.shape), ctx.activation)
        elif wants_bias:
            sums = column_sums(rows)
        with torch.autocast(x.device.type, enabled=False):
            if wants_x:
                dx = (rows @ weight).to(of_x).view(x.shape)
            if wants_weight:
                dweight = _product(rows.T, x.reshape(-1, x.shape[-1]), of_weight)
        dbias = sums.to(of_bias) if wants_bias and sums is not None else None
        return dx, dweight, dbias, None, None


def _product(
    a: Float[Tensor, "M K"], b: Float[Tensor, "K N"], dtype: torch.dtype
) -> Float[Tensor, "M N"]:
    """Return a b in this dtype: if it is float32, without rounding to the dtype of a and b."""
    if a.is_cuda and dtype == torch.float32 and a.dtype != dtype:
        return torch.mm(a, b, out_dtype=dtype)
    return (a @ b).to(dtype)


def column_sums(x: Float[Tensor, "N O"]) -> Float[Tensor, " O"]:
    """Return the sum of the rows, in float32 and in the same order each time."""
    x = x.contiguous()
    return _sums_of(x, x, x, None, OF_SUMS)  # there is no y, and nothing is written


def _before_activation(
    grad: Float[Tensor, "N O"], y: Float[Tensor, "N O"], activation: Activation
) -> tuple[Float[Tensor, "N O"], Float[Tensor, " O"]]:
    """Return dy for the gradient of activation(y), and the sum of its rows in float32."""
    grad, y = grad.contiguous(), y.contiguous()
    dy = torch.empty_like(y)
    return dy, _sums_of(grad, y, dy, activation, OF_ACTIVATION)


def _sums_of(
    grad: Float[Tensor, "N O"],
    y: Float[Tensor, "N O"],
    dy: Float[Tensor, "N O"],
    activation: Activation | None,
    tile: _Tile,
) -> Float[Tensor, " O"]:
    """Write dy for the gradient of activation(y), and return the sum of its rows; without an
    activation, that of the rows of `grad`."""
    num_rows, size = grad.shape
    blocks, parts, steps = tile.division(num_rows, size)
    sums = grad.new_empty(parts, size, dtype=torch.float32)
    _sum_columns[(blocks, parts)](
        grad,
        y,
        dy,
        sums,
        num_rows,
        steps,
        activation=activation or "none",
        size=size,
        rows=tile.rows,
        columns=tile.columns,
        num_warps=WARPS,
    )
    return sums.sum(0)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_columns(  # type: ignore[no-untyped-def]
    grad,
    y,
    dy,
    sums,
    num_rows,
    steps,
    activation: tl.constexpr,
    size: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    """One program for a block of columns in a part of the rows. With an activation it first writes
    dy = grad activation'(y)."""
    part = tl.program_id(1)
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    is_column = column < size
    total = tl.zeros((rows, columns), tl.float32)
    for step in range(steps):
        row = (part * steps + step) * rows + tl.arange(0, rows)
        at = row.to(tl.int64)[:, None] * size + column[None, :]
        is_there = (row < num_rows)[:, None] & is_column[None, :]
        change = tl.load(grad + at, mask=is_there, other=0.0).to(tl.float32)
        if activation != "none":
            v = tl.load(y + at, mask=is_there, other=0.0).to(tl.float32)
            if activation == "relu":
                slope = tl.where(v > 0, 1.0, 0.0)
            elif activation == "gelu":  # P(v) + v p(v), P the normal distribution, p its density
                slope = 0.5 * (1 + tl.erf(v * 0.7071067811865476))
                slope += v * 0.3989422804014327 * tl.exp(-0.5 * v * v)
            elif activation == "gelu-tanh":  # v s(2 a), s the logistic function
                s = tl.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))
                slope = s + v * s * (1 - s) * 1.5957691216057308 * (1 + 0.134145 * v * v)
            else:  # silu: v s(v)
                s = tl.sigmoid(v)
                slope = s + v * s * (1 - s)
            rounded = (change * slope).to(dy.dtype.element_ty)
            tl.store(dy + at, rounded, mask=is_there)
            change = rounded.to(tl.float32)
        total += change
    tl.store(sums + part * size + column, tl.sum(total, 0), mask=is_column)
