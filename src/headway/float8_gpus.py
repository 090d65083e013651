"""Which devices multiply float8: NVIDIA GPUs of compute capability 8.9 (Ada) or higher."""

from __future__ import annotations

from headway.errors import UsageError


def require_float8(device: str) -> None:
    """Raise UsageError if the device (cpu, cuda or mps) does not multiply float8."""
    obstacle = float8_obstacle(device)
    if obstacle is not None:
        raise UsageError(
            "machine.dtype=float8 needs an NVIDIA GPU of compute capability 8.9 or higher, but "
            f"{obstacle}",
            hint="--dtype bfloat16 or --dtype float32",
        )


def float8_obstacle(device: str) -> str | None:
    """Return why the device does not multiply the dtypes e4m3fn and e5m2, or None if it does."""
    import torch

    if device != "cuda":
        return f"the device is {device}"
    if torch.version.cuda is None:  # AMD's GPUs are named cuda, too, and have other float8 dtypes
        return "this torch is built for other GPUs"
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < (8, 9):
        return f"{torch.cuda.get_device_name()} has {major}.{minor}"
    return None
