"""LayerNorm and RMSNorm with their gradients, and the sum of a residual connection.

Around a sublayer of x + f(norm(x)), torch passes over x nine times: it converts the result of the
norm to autocast's dtype, sums the gradients of gain and shift in a kernel of their own, and adds
the two gradients of x. Here one kernel does all of it in each direction.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn

from headway.blocks.norms import LayerNorm
from headway.shapes import Float, Tensor

PROGRAMS = 1024
"""Programs of the backward pass at most; each sums the gradients of gain and shift of its rows."""
TOGETHER = 4096
"""Numbers of x that a program of the backward pass holds at a time, if a row is not longer."""
SUMMED = 4096
"""Numbers that a program adds."""


def normed_and_kept(
    x: Float[Tensor, "*B D"], norm: nn.Module, dtype: torch.dtype
) -> tuple[Float[Tensor, "*B D"], Float[Tensor, "*B D"]]:
    """Return norm(x) in this dtype, and x.

    norm: a LayerNorm or an RMSNorm. The gradients of both results are added in the kernel that
    computes that of x. All is computed in float32.
    """
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    both: tuple[Tensor, Tensor] = _NormedAndKept.apply(  # type: ignore[no-untyped-call]
        x.contiguous(), norm.gain, shift, norm.eps, dtype
    )
    return both


class _NormedAndKept(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor | None, eps: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        size = x.shape[-1]
        num_rows = x.numel() // size
        normed = torch.empty_like(x, dtype=dtype)
        # of each row: the mean (0 for RMSNorm) and 1 / the standard deviation
        moments = x.new_empty(2, num_rows, dtype=torch.float32)
        width = triton.next_power_of_2(size)
        _norm[(num_rows,)](
            x,
            gain,
            gain if shift is None else shift,
            normed,
            moments,
            num_rows,
            eps,
            size=size,
            is_rms=shift is None,
            width=width,
            num_warps=_warps(width),
        )
        ctx.save_for_backward(x, gain, moments)
        ctx.set_materialize_grads(False)
        ctx.has_shift = shift is not None
        return normed, x.view_as(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_normed: Tensor | None, of_kept: Tensor | None) -> tuple[Any, ...]:
        x, gain, moments = ctx.saved_tensors
        if of_normed is None:
            return of_kept, None, None, None, None
        size = x.shape[-1]
        num_rows = x.numel() // size
        width = triton.next_power_of_2(size)
        together, num_warps = _together(width)
        # rows of a program
        rows = together * triton.cdiv(triton.cdiv(num_rows, PROGRAMS), together)
        programs = triton.cdiv(num_rows, rows)
        grad = torch.empty_like(x)
        of_parameters = x.new_empty(2, programs, size, dtype=torch.float32)
        _norm_backward[(programs,)](
            x,
            gain,
            moments,
            of_normed.contiguous(),
            grad if of_kept is None else of_kept.contiguous(),
            grad,
            of_parameters,
            num_rows,
            rows,
            size=size,
            is_rms=not ctx.has_shift,
            is_kept=of_kept is not None,
            width=width,
            together=together,
            num_warps=num_warps,
        )
        of_gain, of_shift = of_parameters.sum(1).to(gain.dtype).unbind()
        return grad, of_gain, of_shift if ctx.has_shift else None, None, None


def _warps(width: int) -> int:
    return min(max(width // 256, 1), 16)


def _together(width: int) -> tuple[int, int]:
    """Return the number of rows that a program of the backward pass has at a time, and its number
    of warps. Each row waits for two sums; with several, the reads of the others go on meanwhile."""
    together = max(1, TOGETHER // width)
    return together, min(max(together * width // 512, 1), 16)


@triton.jit  # type: ignore[untyped-decorator]
def _norm(  # type: ignore[no-untyped-def]
    x,
    gain,
    shift,
    normed,
    moments,
    num_rows,
    eps,
    size: tl.constexpr,
    is_rms: tl.constexpr,
    width: tl.constexpr,
):
    """One program for each row."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, width)
    is_there = d < size
    v = tl.load(x + row * size + d, mask=is_there, other=0.0).to(tl.float32)
    if not is_rms:
        mean = tl.sum(v, 0) / size
        v = tl.where(is_there, v - mean, 0.0)
        tl.store(moments + row, mean)
    scale = 1 / tl.sqrt(tl.sum(v * v, 0) / size + eps)
    tl.store(moments + num_rows + row, scale)
    out = v * scale * tl.load(gain + d, mask=is_there, other=0.0).to(tl.float32)
    if not is_rms:
        out += tl.load(shift + d, mask=is_there, other=0.0).to(tl.float32)
    tl.store(normed + row * size + d, out.to(normed.dtype.element_ty), mask=is_there)


@triton.jit  # type: ignore[untyped-decorator]
def _norm_backward(  # type: ignore[no-untyped-def]
    x,
    gain,
    moments,
    of_normed,
    of_kept,
    grad,
    of_parameters,
    num_rows,
    rows,
    size: tl.constexpr,
    is_rms: tl.constexpr,
    is_kept: tl.constexpr,
    width: tl.constexpr,
    together: tl.constexpr,
):
    """One program for `rows` rows, some of them together.

    With n = (x - mean) scale and g = gain * dy:  dx = scale (g - mean(g) - n mean(g n)),
    d gain = the sum of dy n, and d shift = the sum of dy; RMSNorm has no mean(g).
    """
    program = tl.program_id(0)
    d = tl.arange(0, width)[None, :]
    is_there = d < size
    g = tl.load(gain + d, mask=is_there, other=0.0).to(tl.float32)
    of_gain = tl.zeros((together, width), tl.float32)
    of_shift = tl.zeros((together, width), tl.float32)
    for number in range(0, rows, together):
        row = program.to(tl.int64) * rows + number + tl.arange(0, together)[:, None]
        is_row = row < num_rows
        is_here = is_there & is_row
        at = row * size + d
        v = tl.load(x + at, mask=is_here, other=0.0).to(tl.float32)
        dy = tl.load(of_normed + at, mask=is_here, other=0.0).to(tl.float32)
        if is_kept:
            dx = tl.load(of_kept + at, mask=is_here, other=0.0).to(tl.float32)
        else:
            dx = tl.zeros((together, width), tl.float32)
        scale = tl.load(moments + num_rows + row, mask=is_row, other=0.0)
        if not is_rms:
            mean = tl.load(moments + row, mask=is_row, other=0.0)
            v = tl.where(is_here, v - mean, 0.0)
        n = v * scale
        of_gain += dy * n
        of_shift += dy
        dn = dy * g
        of_row = dn - n * (tl.sum(dn * n, 1, keep_dims=True) / size)
        if not is_rms:
            of_row -= tl.sum(dn, 1, keep_dims=True) / size
        dx += of_row * scale
        tl.store(grad + at, dx.to(grad.dtype.element_ty), mask=is_here)
    of_program = program * size + tl.arange(0, width)
    is_there = tl.arange(0, width) < size
    tl.store(of_parameters + of_program, tl.sum(of_gain, 0), mask=is_there)
    shifts = of_parameters + tl.num_programs(0) * size
    tl.store(shifts + of_program, tl.sum(of_shift, 0), mask=is_there)


def added(x: Float[Tensor, "*B D"], change: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
    """Return x + change in the dtype of x. torch adds numbers of two dtypes one by one."""
    total: Tensor = _Added.apply(x, change)  # type: ignore[no-untyped-call]
    return total


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Tensor) -> Tensor:
        ctx.dtype = change.dtype
        x, change = x.contiguous(), change.contiguous()
        total = torch.empty_like(x)
        count = x.numel()
        _add[(triton.cdiv(count, SUMMED),)](x, change, total, count, block=SUMMED, num_warps=8)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.to(ctx.dtype)


@triton.jit  # type: ignore[untyped-decorator]
def _add(x, change, total, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    is_there = at < count
    a = tl.load(x + at, mask=is_there).to(tl.float32)
    b = tl.load(change + at, mask=is_there).to(tl.float32)
    tl.store(total + at, (a + b).to(total.dtype.element_ty), mask=is_there)
