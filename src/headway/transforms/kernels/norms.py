"""LayerNorm and RMSNorm with their gradients, and the sum of a residual connection.

Around a sublayer of x + f(norm(x)), torch passes over x nine times: it converts the result of the
norm to autocast's dtype, sums the gradients of gain and shift in a kernel of their own, and adds
the two gradients of x. Here one kernel does all of it in each direction, and that of the norm after
the sublayer computes the sum, too.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.norms import LayerNorm

PROGRAMS = 2048
"""Programs of the backward pass at most; each sums the gradients of gain and shift of its rows."""
SUMMED = 4096
"""Numbers that a program adds."""


def added_and_normed(
    x: Float[Tensor, "*B D"],
    change: Float[Tensor, "*B D"] | None,
    norm: nn.Module,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "*B D"], Float[Tensor, "*B D"]]:
    """Return x + change in the dtype of x, and norm(x + change) in this dtype; None stands for 0.

    norm: a LayerNorm or an RMSNorm. The gradients of both results are added in the kernel that
    computes that of x. All is computed in float32.
    """
    shift = norm.shift if isinstance(norm, LayerNorm) else None
    both: tuple[Tensor, Tensor] = _AddedAndNormed.apply(  # type: ignore[no-untyped-call]
        x.contiguous(),
        None if change is None else change.contiguous(),
        norm.gain,
        shift,
        norm.eps,
        dtype,
    )
    return both


class _AddedAndNormed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        change: Tensor | None,
        gain: Tensor,
        shift: Tensor | None,
        eps: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        size = x.shape[-1]
        num_rows = x.numel() // size
        total = x.view_as(x) if change is None else torch.empty_like(x)
        normed = torch.empty_like(x, dtype=dtype)
        # of each row: the mean (0 for RMSNorm) and 1 / the standard deviation
        moments = x.new_empty(2, num_rows, dtype=torch.float32)
        width = triton.next_power_of_2(size)
        # a pointer that is not read stands for what is not there
        _norm[(num_rows,)](
            x,
            x if change is None else change,
            gain,
            gain if shift is None else shift,
            total,
            normed,
            moments,
            num_rows,
            eps,
            size=size,
            is_rms=shift is None,
            has_change=change is not None,
            width=width,
            num_warps=min(max(width // 256, 1), 16),
        )
        ctx.save_for_backward(total, gain, moments)
        ctx.set_materialize_grads(False)
        ctx.has_shift = shift is not None
        ctx.dtype_of_change = None if change is None else change.dtype
        return total, normed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_total: Tensor | None, of_normed: Tensor | None) -> tuple[Any, ...]:
        total, gain, moments = ctx.saved_tensors
        dtype = ctx.dtype_of_change
        if of_normed is None:
            of_change = of_total.to(dtype) if of_total is not None and dtype is not None else None
            return of_total, of_change, None, None, None, None
        size = total.shape[-1]
        num_rows = total.numel() // size
        width = triton.next_power_of_2(size)
        rows = triton.cdiv(num_rows, PROGRAMS)  # of a program
        programs = triton.cdiv(num_rows, rows)
        grad = torch.empty_like(total)
        of_change = None if dtype is None else torch.empty_like(total, dtype=dtype)
        of_parameters = total.new_empty(2, programs, size, dtype=torch.float32)
        _norm_backward[(programs,)](
            total,
            gain,
            moments,
            of_normed.contiguous(),
            grad if of_total is None else of_total.contiguous(),
            grad,
            grad if of_change is None else of_change,
            of_parameters,
            num_rows,
            rows,
            size=size,
            is_rms=not ctx.has_shift,
            is_kept=of_total is not None,
            has_change=of_change is not None,
            width=width,
            num_warps=min(max(width // 512, 1), 16),
        )
        of_gain, of_shift = of_parameters.sum(1).to(gain.dtype).unbind()
        return grad, of_change, of_gain, of_shift if ctx.has_shift else None, None, None


@triton.jit  # type: ignore[untyped-decorator]
def _norm(  # type: ignore[no-untyped-def]
    x,
    change,
    gain,
    shift,
    total,
    normed,
    moments,
    num_rows,
    eps,
    size: tl.constexpr,
    is_rms: tl.constexpr,
    has_change: tl.constexpr,
    width: tl.constexpr,
):
    """One program for each row."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, width)
    is_there = d < size
    v = tl.load(x + row * size + d, mask=is_there, other=0.0).to(tl.float32)
    if has_change:
        v += tl.load(change + row * size + d, mask=is_there, other=0.0).to(tl.float32)
        rounded = v.to(total.dtype.element_ty)
        tl.store(total + row * size + d, rounded, mask=is_there)
        v = rounded.to(tl.float32)
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
    of_change,
    of_parameters,
    num_rows,
    rows,
    size: tl.constexpr,
    is_rms: tl.constexpr,
    is_kept: tl.constexpr,
    has_change: tl.constexpr,
    width: tl.constexpr,
):
    """One program for `rows` rows one after another.

    With n = (x - mean) scale and g = gain * dy:  dx = scale (g - mean(g) - n mean(g n)),
    d gain = the sum of dy n, and d shift = the sum of dy; RMSNorm has no mean(g).
    """
    program = tl.program_id(0)
    d = tl.arange(0, width)
    is_there = d < size
    g = tl.load(gain + d, mask=is_there, other=0.0).to(tl.float32)
    of_gain = tl.zeros((width,), tl.float32)
    of_shift = tl.zeros((width,), tl.float32)
    for number in range(rows):
        row = program.to(tl.int64) * rows + number
        is_row = row < num_rows
        is_here = is_there & is_row
        at = row * size + d
        v = tl.load(x + at, mask=is_here, other=0.0).to(tl.float32)
        dy = tl.load(of_normed + at, mask=is_here, other=0.0).to(tl.float32)
        if is_kept:
            dx = tl.load(of_kept + at, mask=is_here, other=0.0).to(tl.float32)
        else:
            dx = tl.zeros((width,), tl.float32)
        scale = tl.load(moments + num_rows + row, mask=is_row, other=0.0)
        if not is_rms:
            mean = tl.load(moments + row, mask=is_row, other=0.0)
            v = tl.where(is_here, v - mean, 0.0)
        n = v * scale
        of_gain += dy * n
        of_shift += dy
        dn = dy * g
        of_row = dn - n * (tl.sum(dn * n, 0) / size)
        if not is_rms:
            of_row -= tl.sum(dn, 0) / size
        dx += of_row * scale
        tl.store(grad + at, dx.to(grad.dtype.element_ty), mask=is_here)
        if has_change:
            tl.store(of_change + at, dx.to(of_change.dtype.element_ty), mask=is_here)
    tl.store(of_parameters + program * size + d, of_gain, mask=is_there)
    shifts = of_parameters + tl.num_programs(0) * size
    tl.store(shifts + program * size + d, of_shift, mask=is_there)


def added(x: Float[Tensor, "*B D"], change: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
    """Return x + change in the dtype of x. torch adds numbers of two dtypes one by one."""
    return _Added.apply(x, change)  # type: ignore[no-untyped-call]


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
