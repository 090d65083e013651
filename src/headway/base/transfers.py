"""Copies between the CPU and the device that computes, without waiting where none is needed."""

from collections.abc import Callable
from typing import Any

import torch

from headway.base.devices import most_exact
from headway.base.shapes import Tensor


def upload(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor of the CPU on the device, without waiting for a GPU.

    A copy to CUDA is made from pinned memory, while the CPU continues.
    """
    kind = torch.device(device).type
    if kind == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    # On Apple's GPUs a copy that is not awaited may be of memory that is already in use again.
    return tensor.to(device, non_blocking=kind != "mps")


def positions_where(mask: Tensor, count: int | None = None) -> Tensor:
    """Return the positions in the flattened mask at which it is True, in order.

    count: their number. If None they are counted, for which the CPU waits for a GPU.
    """
    flat = mask.flatten()
    if count is None:
        return flat.nonzero()[:, 0]
    return torch.nonzero_static(flat, size=count)[:, 0]


def read(*tensors: Tensor) -> list[Any]:
    """Return the values of tensors of one device as (nested) lists, as `Tensor.tolist` does.

    The CPU waits for a GPU once, not once for each tensor. Integers must be below 2^53.
    """
    return read_later(*tensors)()


def read_later(*tensors: Tensor) -> Callable[[], list[Any]]:
    """Return a function with the result of `read`, which waits only for what computes these values.

    Work that a CUDA device gets between the two calls it does while the CPU uses the values.
    """
    device = tensors[0].device
    if device.type == "cpu" or most_exact(device) != torch.float64:
        return lambda: [tensor.tolist() for tensor in tensors]
    packed = torch.cat([tensor.detach().flatten().double() for tensor in tensors])
    fetched = _copied(packed) if device.type == "cuda" else packed.cpu

    def values() -> list[Any]:
        on_cpu = fetched()
        parts = on_cpu.split_with_sizes([tensor.numel() for tensor in tensors])
        return [
            part.to(tensor.dtype).view(tensor.shape).tolist()
            for part, tensor in zip(parts, tensors, strict=True)
        ]

    return values


def _copied(tensor: Tensor) -> Callable[[], Tensor]:
    """Begin to copy a tensor of a CUDA device; the function waits for the copy and returns it."""
    on_cpu = torch.empty_like(tensor, device="cpu", pin_memory=True)
    on_cpu.copy_(tensor, non_blocking=True)
    copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def fetched() -> Tensor:
        copied.synchronize()
        return on_cpu

    return fetched
