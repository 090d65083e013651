"""Fast twin of linear layers: float32 products on a CPU by the faster of torch's libraries.

torch sends float32 products to MKL, which on processors with AVX-512 that are not Intel's reaches
half of their speed; oneDNN, which torch uses for 16 bits, reaches all of it. Without AVX-512 MKL is
faster for many rows, and reads transposed views in place, which oneDNN copies: gradients are
products of such views. Both round in float32. Few rows without gradients are multiplied by compiled
loops (`loops.py`). docs/log/speed.md has the tables.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast import loops
from headway.transforms.kernels import computes
from headway.transforms.lora import LoRALinear
from headway.transforms.tracing import sharded, tracing

# oneDNN's call costs 10 microseconds more, which pays from so many multiplications on, and for
# matrices too large for a core's cache however few vectors they multiply.
WORK, MATRIX = 1 << 20, 1 << 18

LOOPED_ROWS, LOOPED_ROWS_AVX2, LOOPED = 32, 128, 2**14
"""Most rows, with AVX-512 and without, and fewest weights, for which compiled loops (`loops.py`)
are faster than torch."""

MANY_ROWS = 65
"""Rows from which MKL is faster than oneDNN, where it reaches full speed."""

LARGE = 2**24
"""Outputs from which the gradient of a bias is worth a kernel of our own: what it saves on a GPU is
then more than the CPU takes to launch it."""

ALIGNED = 8
"""Numbers of 2 bytes that a GPU reads at once."""


class FastLinear(nn.Linear):
    """y = x W^T + b by `linear`.

    invariant: whether a row of y must have the same bits for any number of rows from 2 on.
    """

    invariant = False

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(input, self.weight, self.bias, self.invariant)


class FastLoRALinear(LoRALinear, FastLinear):
    """`LoRALinear`, whose product with W is that of `FastLinear`."""


def linear(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
    invariant: bool = False,
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b, in autocast's dtype if it is enabled.

    dx = dy W;  dW = dy^T x;  db = the sum of dy over all rows. invariant: as in `FastLinear`.
    """
    if x.is_cuda:
        return _on_gpu(x, weight, bias)
    if tracing(x, weight):  # a graph holds for every number of rows
        return F.linear(x, weight, bias)
    # oneDNN's rows have the same bits for any number of them from 2 on; those of MKL do not
    rows = x.numel() // max(x.shape[-1], 1)
    most = LOOPED_ROWS_AVX2 if mkl_is_fast() else LOOPED_ROWS
    is_looped = rows <= most and weight.numel() >= LOOPED and not invariant
    if is_looped and weight.dtype == torch.float32 and loops.suits(x, weight, bias):
        looped = loops.product(x.reshape(rows, -1).contiguous(), weight, bias)
        return looped.view(*x.shape[:-1], weight.shape[0])
    if not _prefers_onednn(x, weight, invariant):
        return F.linear(x, weight, bias)
    flat = x.reshape(-1, x.shape[-1])
    wants_grad = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    compute = _Linear.apply if wants_grad else by_onednn
    y: Tensor = compute(flat, weight, bias)
    return y.view(*x.shape[:-1], weight.shape[0])


def _on_gpu(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*B O"]:
    if _has_odd_rows(x, weight):
        return _by_columns(x, weight, bias)
    if not trains_by_kernel(x, weight, bias):
        return F.linear(x, weight, bias)
    from headway.transforms.kernels.linear import linear_for_training

    assert bias is not None
    return linear_for_training(x, weight, bias, autocast_dtype("cuda") or x.dtype)


def trains_by_kernel(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> bool:
    """Whether the gradient of x W^T + b takes less time by kernels of our own."""
    is_large = x.numel() // x.shape[-1] * weight.shape[0] >= LARGE
    if bias is None or not (is_large and bias.requires_grad and torch.is_grad_enabled()):
        return False
    return computes(x) and not sharded(weight)


def _has_odd_rows(x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"]) -> bool:
    """Whether the rows of the product begin at odd addresses of a GPU, for which cuBLAS has only
    kernels that are several times as slow: 50,257 outputs of 2 bytes, without gradients."""
    if weight.shape[0] % ALIGNED == 0 or x.numel() <= x.shape[-1]:
        return False
    if torch.is_grad_enabled() or tracing(x, weight):
        return False
    return (autocast_dtype("cuda") or x.dtype) in (torch.bfloat16, torch.float16)


def _by_columns(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b as the transpose of W x^T, whose rows begin at multiples of 16 bytes."""
    flat = x.reshape(-1, x.shape[-1])
    padded = F.pad(flat, (0, 0, 0, -len(flat) % ALIGNED))
    y = (weight @ padded.T)[:, : len(flat)].T.contiguous()
    y = y if bias is None else y + bias
    return y.view(*x.shape[:-1], weight.shape[0])


def product(a: Float[Tensor, "M K"], b: Float[Tensor, "N K"]) -> Float[Tensor, "M N"]:
    """Return a b^T, outside autograd, by the library that is faster for these matrices."""
    transposed = not (a.is_contiguous() and b.is_contiguous())
    if (transposed and mkl_is_fast()) or not _prefers_onednn(a, b):
        return by_mkl(a, b)
    return by_onednn(a, b)


def by_mkl(a: Float[Tensor, "M K"], b: Float[Tensor, "N K"]) -> Float[Tensor, "M N"]:
    """Return a b^T by torch's own choice: MKL for float32 on a CPU, where torch contains it."""
    return a @ b.T


@cache
def mkl_is_fast() -> bool:
    """Whether MKL reaches this processor's speed: it does without AVX-512, whoever made it."""
    mkl: Any = torch.backends.mkl
    return bool(mkl.is_available()) and torch.backends.cpu.get_cpu_capability() == "AVX2"


def _prefers_onednn(
    a: Float[Tensor, "*M K"], b: Float[Tensor, "N K"], always: bool = False
) -> bool:
    """Whether a b^T is in float32 on a CPU, of a size for oneDNN (or `always`), and not under
    autocast.

    Never while `tracing`: Inductor expects weights packed by itself in oneDNN's call, an exported
    graph must hold for every size, and oneDNN knows no shards.
    """
    if tracing(a, b):
        return False
    is_small = a.numel() * b.shape[0] < WORK and b.numel() < MATRIX
    if not always and (is_small or _is_for_mkl(a)):
        return False
    plain = a.dtype == b.dtype == torch.float32 and a.is_cpu and b.is_cpu
    return plain and not torch.is_autocast_enabled("cpu") and available()


def _is_for_mkl(a: Float[Tensor, "*M K"]) -> bool:
    """Whether MKL is the faster one for these rows: for many, where it reaches full speed."""
    return a.numel() >= MANY_ROWS * a.shape[-1] and mkl_is_fast()


def available() -> bool:
    """Whether this torch has oneDNN, and has it switched on."""
    mkldnn: Any = torch.backends.mkldnn  # oneDNN's former name
    return bool(mkldnn.enabled and mkldnn.is_available())


def by_onednn(
    a: Float[Tensor, "M K"], b: Float[Tensor, "N K"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """Return a b^T + bias by oneDNN, outside autograd."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return by_onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        grad_x = product(grad, weight.t()) if wants_x else None
        grad_weight = product(grad.t(), x.t()) if wants_weight else None
        return grad_x, grad_weight, grad.sum(0) if wants_bias else None
