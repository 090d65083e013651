"""Parameters side by side in one block of memory: one product for several layers, larger pages."""

import math
import mmap
from collections.abc import Hashable, MutableMapping, Sequence

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from headway.base.shapes import Tensor

ALIGNMENT = 64  # bytes: a cache line, and the widest registers
_RUNS: MutableMapping[Tensor, Tensor] = WeakIdKeyDictionary()
"""A parameter that `contiguous_parameters` placed beside others -> all of these as one tensor."""


def contiguous_parameters(model: nn.Module) -> None:
    """Move the parameters of a model for inference into one block of CPU memory; on a GPU only
    those that become adjacent.

    Matrices that multiply the same vector (of queries, keys and values) become adjacent, so that
    one product computes all; and the block is in large pages where the system has them: a model
    that generates one text reads all of its weights for each token, and a tenth of that time is the
    processor looking up addresses of pages.

    Parameters remain the same objects, with their values, names and ties. Each has a storage of its
    own, so part of the model can be saved or copied without the rest. The block is private to the
    process, also after a fork, and is freed when no parameter in it is referenced any more.
    Parameters on other devices are not moved.
    """
    for group in _neighbours(model, "cuda"):
        if len(group) > 1:
            _join_on_gpu(group)
    groups = _neighbours(model, "cpu")
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
        if len(group) > 1 and _fit(group):
            run = _part(memory, first, _joint_shape(group), group[0].dtype)
            for parameter in group:
                _RUNS[parameter] = run


def _fit(group: Sequence[Tensor]) -> bool:
    """Whether each begins at a multiple of `ALIGNMENT` if there is no padding between them."""
    return all(parameter.nbytes % ALIGNMENT == 0 for parameter in group[:-1])


def _joint_shape(group: Sequence[Tensor]) -> tuple[int, ...]:
    return sum(parameter.shape[0] for parameter in group), *group[0].shape[1:]


class _GPUMemory:
    """Part of a tensor on a GPU as memory of its own, by the protocol that NumPy's is modelled on.

    The tensor lives as long as any of its parts.
    """

    def __init__(self, whole: Tensor, start: int, size: int) -> None:
        self.whole = whole
        place = (whole.data_ptr() + start, False)  # False: it may be written
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": place,
            "version": 2,
        }


def _join_on_gpu(group: Sequence[nn.Parameter]) -> None:
    """Make the parameters adjacent in the memory of their GPU."""
    if not _fit(group):
        return
    run = torch.empty(_joint_shape(group), dtype=group[0].dtype, device=group[0].device)
    start = 0
    for parameter in group:
        value = parameter.data
        part = torch.as_tensor(_GPUMemory(run, start, value.nbytes), device=run.device)
        parameter.data = part.view(value.dtype).view(value.shape).copy_(value)
        start += value.nbytes
        _RUNS[parameter] = run


def _room(parameter: Tensor) -> int:
    """Return its bytes in a block, with the padding after it."""
    return -(-parameter.nbytes // ALIGNMENT) * ALIGNMENT


def _part(memory: mmap.mmap, start: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a part of the memory as a tensor whose storage is that part."""
    return torch.frombuffer(memory, dtype=dtype, offset=start, count=math.prod(shape)).view(*shape)


def _neighbours(model: nn.Module, device: str) -> list[list[nn.Parameter]]:
    """Return the parameters on a kind of device: those of linear layers of one module that may be
    multiplied as one in one list, every other in a list of its own."""
    groups: dict[Hashable, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.device.type != device or not parameter.numel():
            continue
        if not parameter.is_floating_point():
            continue  # codes of small numbers, which their product has in a layout of its own
        layer, _, kind = name.rpartition(".")
        key: Hashable = name
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
