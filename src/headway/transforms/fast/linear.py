"""Fast twin of linear layers: float32 products on a CPU by the faster of torch's libraries.

torch sends float32 products to MKL, which on processors with AVX-512 that are not Intel's reaches
half of their speed; oneDNN, which torch uses for 16 bits, reaches all of it. Without AVX-512 MKL is
faster for many rows, and reads transposed views in place, which oneDNN copies: gradients are
products of such views. Both round in float32. For few rows, much of oneDNN's time is rearranging W:
a model for inference keeps copies of W in oneDNN's layout (`pack_weights`). docs/log/speed.md has
the tables.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.transforms.autocast import autocast_dtype
from headway.transforms.kernels import computes
from headway.transforms.lora import LoRALinear
from headway.transforms.tracing import sharded, tracing

# oneDNN's call costs 10 microseconds more, which pays from so many multiplications on, and for
# matrices too large for a core's cache however few vectors they multiply.
WORK, MATRIX = 1 << 20, 1 << 18

FEW_ROWS = range(2, 65)
"""Rows for which oneDNN's layout of W pays; the product has the same bits as that of W."""

LARGE = 2**24
"""Outputs from which the gradient of a bias is worth a kernel of our own: what it saves on a GPU is
then more than the CPU takes to launch it."""

ALIGNED = 8
"""Numbers of 2 bytes that a GPU reads at once."""

PACKED_BYTES = 2**29
"""Models with more bytes of linear layers keep no copies, which take up to twice that."""


class FastLinear(nn.Linear):
    """y = x W^T + b by `linear`. keeps_packed: whether it may keep a packed copy of W. invariant:
    whether a row of y must have the same bits for any number of rows from 2 on."""

    keeps_packed = False
    invariant = False

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(input, self.weight, self.bias, packed_by=[self])


class FastLoRALinear(LoRALinear, FastLinear):
    """`LoRALinear`, whose product with W is that of `FastLinear`."""


def linear(
    x: Float[Tensor, "*B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
    packed_by: Sequence[FastLinear] = (),
) -> Float[Tensor, "*B O"]:
    """Return x W^T + b, in autocast's dtype if it is enabled.

    dx = dy W;  dW = dy^T x;  db = the sum of dy over all rows. packed_by: the layers whose matrices
    `weight` consists of, which may keep a packed copy.
    """
    if x.is_cuda:
        return _on_gpu(x, weight, bias)
    # oneDNN's rows have the same bits for any number of them from 2 on; those of MKL do not. Not
    # `bool(packed_by)`: before torch 2.12, torch.compile cannot trace it, and splits its graph.
    always = len(packed_by) > 0 and packed_by[0].invariant
    if not _prefers_onednn(x, weight, always):
        return F.linear(x, weight, bias)
    flat = x.reshape(-1, x.shape[-1])
    rows = flat.shape[0]
    wants_grad = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    if wants_grad:
        y: Tensor = _Linear.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    elif rows in FEW_ROWS and packed_by and packed_by[0].keeps_packed:
        y = by_onednn(flat, _packed(weight, packed_by), bias)
    else:
        y = by_onednn(flat, weight, bias)
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
    return a.numel() >= FEW_ROWS.stop * a.shape[-1] and mkl_is_fast()


def available() -> bool:
    """Whether this torch has oneDNN, and has it switched on."""
    mkldnn: Any = torch.backends.mkldnn  # oneDNN's former name
    return bool(mkldnn.enabled and mkldnn.is_available())


def by_onednn(
    a: Float[Tensor, "M K"], b: Float[Tensor, "N K"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """Return a b^T + bias by oneDNN, outside autograd."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


def pack_weights(model: nn.Module) -> None:
    """Let the linear layers of a model for inference keep copies of their matrices.

    A copy is made when a layer first multiplies few rows, and again when its weights have changed
    since: under `torch.no_grad()`, or by `load_state_dict`. Changes by way of `parameter.data` are
    not noticed, since torch does not count them; call this again after them.
    """
    layers = [module for module in model.modules() if isinstance(module, FastLinear)]
    is_small = sum(layer.weight.nbytes for layer in layers) <= PACKED_BYTES
    for layer in layers:
        layer.keeps_packed = is_small and not layer.weight.is_inference()
        _PACKED.pop(layer, None)


def _packed(weight: Tensor, layers: Sequence[FastLinear]) -> Tensor:
    """Return the weight in oneDNN's layout, packed anew if the layers have changed since."""
    state = (weight.data_ptr(), len(layers), *(layer.weight._version for layer in layers))
    known = _PACKED.get(layers[0])
    if known is None or known[0] != state:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        known = _PACKED[layers[0]] = state, packed
    return known[1]


_PACKED: MutableMapping[FastLinear, tuple[tuple[int, ...], Tensor]] = WeakKeyDictionary()
"""First of the layers whose matrices were packed -> the state they were in, and the copy."""


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
