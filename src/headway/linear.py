"""Matrix products in float32 on a CPU, by the faster of the two libraries that torch carries.

torch sends float32 products to MKL, which on processors that are not Intel's takes half the speed
they have; oneDNN, which torch uses for 16 bits, takes it all, and where MKL is at home it loses
nothing. Both round in float32. docs/speed.md has the table.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.shapes import Float, Tensor

WORTH_IT = 1 << 20  # multiplications; oneDNN's call costs 10 microseconds more


class Linear(nn.Linear):
    """y = x W^T + b: torch's layer, with the products of `linear`."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(input, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
) -> Float[Tensor, "*B O"]:
    """x W^T + b, in autocast's number format where there is one.

    dx = dy W;  dW = dy^T x;  db = the sum of dy over all rows.
    """
    rows = x.numel() // max(x.shape[-1], 1)
    if not _by_onednn(x, weight, rows * weight.numel()):
        return F.linear(x, weight, bias)
    flat = x.reshape(rows, x.shape[-1])
    wants_grad = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    if wants_grad:
        y: Tensor = _Linear.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    else:
        y = _onednn(flat, weight, bias)
    return y.view(*x.shape[:-1], weight.shape[0])


def product(a: Float[Tensor, "M K"], b: Float[Tensor, "N K"]) -> Float[Tensor, "M N"]:
    """a b^T, outside autograd. Transposed views are read as they lie."""
    if _by_onednn(a, b, a.shape[0] * b.numel()):
        return _onednn(a, b, None)
    return a @ b.T


def _by_onednn(a: Tensor, b: Tensor, work: int) -> bool:
    """Whether it is float32 on a CPU, large enough, and nobody asked for another format."""
    plain = a.dtype == b.dtype == torch.float32 and a.device.type == b.device.type == "cpu"
    return plain and work >= WORTH_IT and not torch.is_autocast_enabled("cpu") and available()


def available() -> bool:
    """Whether this torch has oneDNN, and has it switched on."""
    mkldnn: Any = torch.backends.mkldnn  # oneDNN's former name
    return bool(mkldnn.enabled and mkldnn.is_available())


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")
    return found


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        grad_x = product(grad, weight.t()) if wants_x else None
        grad_weight = product(grad.t(), x.t()) if wants_weight else None
        return grad_x, grad_weight, grad.sum(0) if wants_bias else None
