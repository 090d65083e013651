"""Fast twin of linear layers: float32 products on a CPU by the faster of torch's libraries.

torch sends float32 products to MKL, which on processors that are not Intel's reaches half of their
speed; oneDNN, which torch uses for 16 bits, reaches all of it, and loses nothing where MKL is fast.
Both round in float32. docs/speed.md has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.shapes import Float, Tensor
from headway.transforms.fast.memory import adjacent
from headway.transforms.lora import LoRALinear
from headway.transforms.tracing import tracing

# oneDNN's call costs 10 microseconds more, which pays from so many multiplications on, and for
# matrices too large for a core's cache however few vectors they multiply.
WORK, MATRIX = 1 << 20, 1 << 18


class FastLinear(nn.Linear):
    """y = x W^T + b by `linear`."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(input, self.weight, self.bias)


class FastLoRALinear(LoRALinear, FastLinear):
    """`LoRALinear`, whose product with W is that of `FastLinear`."""


def linear(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b, in autocast's dtype if it is enabled.

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


def linears(x: Float[Tensor, "*B I"], layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """Return each layer's output for x: one product if their matrices are adjacent in memory."""
    plain = torch.is_grad_enabled() or tracing(x, *(layer.weight for layer in layers))
    joined = None if plain else _joined(layers)
    if joined is None:
        return tuple(layer(x) for layer in layers)
    return torch.split(linear(x, *joined), [layer.out_features for layer in layers], dim=-1)


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None] | None:
    """Return the layers' weights and biases as one of each, if they are adjacent in memory."""
    if not all(_is_plain(layer) for layer in layers):
        return None
    weight = adjacent([layer.weight for layer in layers])
    biases = [layer.bias for layer in layers if layer.bias is not None]
    if weight is None or not biases:
        return None if weight is None else (weight, None)
    bias = adjacent(biases) if len(biases) == len(layers) else None
    return None if bias is None else (weight, bias)


def _is_plain(layer: nn.Linear) -> bool:
    """Whether the layer is no other class and has no hooks."""
    return type(layer) is FastLinear and not (layer._forward_hooks or layer._forward_pre_hooks)


def product(a: Float[Tensor, "M K"], b: Float[Tensor, "N K"]) -> Float[Tensor, "M N"]:
    """Return a b^T, outside autograd. Transposed views are not copied."""
    if _by_onednn(a, b, a.shape[0] * b.numel()):
        return _onednn(a, b, None)
    return a @ b.T


def _by_onednn(a: Tensor, b: Tensor, work: int) -> bool:
    """Whether the product is in float32 on a CPU, large enough, and not under autocast.

    Never while `tracing`: Inductor expects weights packed by itself in oneDNN's call, an exported
    graph must hold for every size, and oneDNN knows no shards.
    """
    if tracing(a, b):
        return False
    plain = a.dtype == b.dtype == torch.float32 and a.device.type == b.device.type == "cpu"
    large = work >= WORK or b.numel() >= MATRIX
    return plain and large and not torch.is_autocast_enabled("cpu") and available()


def available() -> bool:
    """Whether this torch has oneDNN, and has it switched on."""
    mkldnn: Any = torch.backends.mkldnn  # oneDNN's former name
    return bool(mkldnn.enabled and mkldnn.is_available())


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")
    return y


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
