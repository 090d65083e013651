"""A linear layer for training on a GPU: the gradient of its bias in a pass at the memory's speed.

torch sums the rows of dy at a third of it, a twentieth of a training step of GPT-2. Here the
gradient of the matrix, too, leaves the product in the dtype of the matrix: under autocast torch
rounds it to bfloat16 and converts that in a pass of its own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from headway.shapes import Float, Tensor

PROGRAMS = 1024
"""About this many programs sum columns; a GPU runs several hundred at once."""
ROWS, COLUMNS = 32, 128
"""Of the part of a matrix that a program reads at a time."""


def linear_for_training(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"],
    dtype: torch.dtype,
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b, multiplied in this dtype.

    dx = dy W;  dW = dy^T x;  db = the sum of dy over all rows.
    """
    y: Tensor = _Linear.apply(x, weight, bias, dtype)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        ctx.save_for_backward(x, weight)
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.dtypes
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        dx = dweight = dbias = None
        with torch.autocast(x.device.type, enabled=False):
            if wants_x:
                dx = (dy @ weight).to(of_x)
            rows = dy.reshape(-1, dy.shape[-1])
            if wants_weight:
                dweight = _product(rows.T, x.reshape(-1, x.shape[-1]), of_weight)
            if wants_bias:
                dbias = column_sums(rows).to(of_bias)
        return dx, dweight, dbias, None


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
    num_rows, size = x.shape
    blocks = triton.cdiv(size, COLUMNS)
    steps = triton.cdiv(triton.cdiv(num_rows, ROWS), max(1, PROGRAMS // blocks))
    parts = triton.cdiv(num_rows, ROWS * steps)
    sums = x.new_empty(parts, size, dtype=torch.float32)
    _sum_columns[(blocks, parts)](
        x, sums, num_rows, steps, size=size, rows=ROWS, columns=COLUMNS, num_warps=4
    )
    return sums.sum(0)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_columns(  # type: ignore[no-untyped-def]
    x, sums, num_rows, steps, size: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr
):
    """One program for a block of columns in a part of the rows."""
    part = tl.program_id(1)
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    is_column = column < size
    total = tl.zeros((rows, columns), tl.float32)
    for step in range(steps):
        row = (part * steps + step) * rows + tl.arange(0, rows)
        at = row.to(tl.int64)[:, None] * size + column[None, :]
        is_there = (row < num_rows)[:, None] & is_column[None, :]
        total += tl.load(x + at, mask=is_there, other=0.0).to(tl.float32)
    tl.store(sums + part * size + column, tl.sum(total, 0), mask=is_column)
