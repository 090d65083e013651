"""Matrix products in float32 on a CPU, by the faster of the two libraries that torch carries.

torch sends float32 products to MKL, which on processors that are not Intel's takes half the speed
they have; oneDNN, which torch uses for 16 bits, takes it all, and where MKL is at home it loses
nothing. Both round in float32. docs/speed.md has the table.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from headway.shapes import Float, Tensor

ALIGNMENT = 64  # bytes: a cache line, and the widest registers
# oneDNN's call costs 10 microseconds more, which pays from so many multiplications on, and for
# matrices that no longer lie in a core's cache however few rows they meet.
WORK, MATRIX = 1 << 20, 1 << 18
_RUNS: MutableMapping[Tensor, Tensor] = WeakIdKeyDictionary()
"""A parameter that `lay_out` put beside others -> all of these as one tensor."""


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


def linears(x: Float[Tensor, "*B I"], layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """What each of the layers makes of x; one product where their rows lie together (`lay_out`)."""
    joined = None if torch.is_grad_enabled() else _joined(layers)
    if joined is None:
        return tuple(layer(x) for layer in layers)
    return torch.split(linear(x, *joined), [layer.out_features for layer in layers], dim=-1)


def lay_out(model: nn.Module) -> None:
    """Put the parameters of a model that will be used, not trained, into one block of CPU memory.

    Matrices that read the same vector (queries, keys and values) lie one after the other, so that
    they can be multiplied as one; and the block lies in large pages where the system has them,
    because a model that writes one text reads all of its weights for each token, and a tenth of
    that time is the processor looking up where a page is.

    Parameters stay the same objects, with their values, names and ties. Each has a storage of its
    own, so a part of the model is saved and copied without the rest. The block is private to the
    process, also after a fork, and is freed when no parameter in it is referenced any more: clone
    one to keep it alone. Parameters on other devices stay where they are.
    """
    groups = _neighbours(model)
    end = sum(_room(parameter) for group in groups for parameter in group)
    if not end:
        return
    # by default it would be shared with forked processes, whose changes would arrive here
    memory = mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    start = 0
    for group in groups:
        first = start
        for parameter in group:
            value = parameter.data
            parameter.data = _part(memory, start, value.shape, value.dtype).copy_(value)
            start += _room(parameter)
        if len(group) > 1 and all(p.nbytes % ALIGNMENT == 0 for p in group[:-1]):
            rows = sum(parameter.shape[0] for parameter in group)
            run = _part(memory, first, (rows, *group[0].shape[1:]), group[0].dtype)
            for parameter in group:
                _RUNS[parameter] = run


def _room(parameter: Tensor) -> int:
    """Its bytes in a block, with the gap behind it."""
    return -(-parameter.nbytes // ALIGNMENT) * ALIGNMENT


def _part(memory: mmap.mmap, start: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A part of the memory as a tensor whose storage is that part."""
    return torch.frombuffer(memory, dtype=dtype, offset=start, count=math.prod(shape)).view(*shape)


def _neighbours(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters on the CPU; those of linear layers of one module that may be multiplied as one
    are together, and every other is alone."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu" or not parameter.numel():
            continue
        layer, _, kind = name.rpartition(".")
        key: Any = name
        if isinstance(model.get_submodule(layer), nn.Linear):
            key = (layer.rpartition(".")[0], kind, parameter.dtype, parameter.shape[1:])
        groups.setdefault(key, []).append(parameter)
    return list(groups.values())


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None] | None:
    """The layers' weight and bias as one of each, if they are plain layers that lie together."""
    if torch.compiler.is_compiling() or not all(_is_plain(layer) for layer in layers):
        return None
    weight = _adjacent([layer.weight for layer in layers])
    biases = [layer.bias for layer in layers if layer.bias is not None]
    if weight is None or not biases:
        return None if weight is None else (weight, None)
    bias = _adjacent(biases) if len(biases) == len(layers) else None
    return None if bias is None else (weight, bias)


def _is_plain(layer: nn.Linear) -> bool:
    """Whether nothing else happens in it, nor is anybody watching."""
    return type(layer) is Linear and not (layer._forward_hooks or layer._forward_pre_hooks)


def _adjacent(tensors: Sequence[Tensor]) -> Tensor | None:
    """The tensors as one, by their first dimension, without a copy; None if they do not lie so."""
    first = tensors[0]
    run = _RUNS.get(first)
    if run is None:
        return None
    begin = end = first.data_ptr()
    for tensor in tensors:
        alike = tensor.dtype == run.dtype and tensor.shape[1:] == run.shape[1:]
        if tensor.data_ptr() != end or not alike or not tensor.is_contiguous():
            return None
        end += tensor.nbytes
    if begin < run.data_ptr() or end > run.data_ptr() + run.nbytes:
        return None
    row = run.nbytes // run.shape[0]
    return run[(begin - run.data_ptr()) // row : (end - run.data_ptr()) // row]


def product(a: Float[Tensor, "M K"], b: Float[Tensor, "N K"]) -> Float[Tensor, "M N"]:
    """a b^T, outside autograd. Transposed views are read as they lie."""
    if _by_onednn(a, b, a.shape[0] * b.numel()):
        return _onednn(a, b, None)
    return a @ b.T


def _by_onednn(a: Tensor, b: Tensor, work: int) -> bool:
    """Whether it is float32 on a CPU, large enough, and nobody asked for another format.

    Never while torch.compile traces: Inductor expects weights packed by itself in oneDNN's call,
    and chooses the library of a plain product on its own.
    """
    if torch.compiler.is_compiling():
        return False
    plain = a.dtype == b.dtype == torch.float32 and a.device.type == b.device.type == "cpu"
    large = work >= WORK or b.numel() >= MATRIX
    return plain and large and not torch.is_autocast_enabled("cpu") and available()


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
