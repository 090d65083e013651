"""Parameters side by side in one block of memory: one product for several layers, larger pages."""

from __future__ import annotations

import math
import mmap
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from headway.shapes import Tensor

ALIGNMENT = 64  # bytes: a cache line, and the widest registers
_RUNS: MutableMapping[Tensor, Tensor] = WeakIdKeyDictionary()
"""A parameter that `contiguous_parameters` placed beside others -> all of these as one tensor."""


def contiguous_parameters(model: nn.Module) -> None:
    """Move the parameters of a model for inference into one block of CPU memory.

    Matrices that multiply the same vector (of queries, keys and values) become adjacent, so that
    one product computes all; and the block is in large pages where the system has them: a model
    that generates one text reads all of its weights for each token, and a tenth of that time is the
    processor looking up addresses of pages.

    Parameters remain the same objects, with their values, names and ties. Each has a storage of its
    own, so part of the model can be saved or copied without the rest. The block is private to the
    process, also after a fork, and is freed when no parameter in it is referenced any more.
    Parameters on other devices are not moved.
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
    """Return its bytes in a block, with the padding after it."""
    return -(-parameter.nbytes // ALIGNMENT) * ALIGNMENT


def _part(memory: mmap.mmap, start: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a part of the memory as a tensor whose storage is that part."""
    return torch.frombuffer(memory, dtype=dtype, offset=start, count=math.prod(shape)).view(*shape)


def _neighbours(model: nn.Module) -> list[list[nn.Parameter]]:
    """Return the parameters on the CPU: those of linear layers of one module that may be multiplied
    as one in one list, every other in a list of its own."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu" or not parameter.numel():
            continue
        if not parameter.is_floating_point():
            continue  # codes of small numbers, which their product has in a layout of its own
        layer, _, kind = name.rpartition(".")
        key: Any = name
        if isinstance(model.get_submodule(layer), nn.Linear):
            key = (layer.rpartition(".")[0], kind, parameter.dtype, parameter.shape[1:])
        groups.setdefault(key, []).append(parameter)
    return list(groups.values())


def adjacent(tensors: Sequence[Tensor]) -> Tensor | None:
    """Return the tensors as one along their first axis, without a copy; None if not adjacent."""
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
