"""`headway doctor`: versions and devices."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

import torch

from headway import __version__
from headway.base.devices import bfloat16_instructions, float8_obstacle, select_device
from headway.base.memory import memory_bytes
from headway.cli.flags import TEXT, PrintFlags
from headway.cli.version import version_of
from headway.terminal.console import data, data_json
from headway.transforms.fast import loops
from headway.transforms.kernels import obstacle as kernel_obstacle


def doctor(*, flags: PrintFlags = TEXT) -> None:
    """Show versions, devices, optional packages and disk, for bug reports."""
    properties = describe()
    packages = properties.pop("packages")
    properties = {**properties, **_small_numbers(), "packages": packages}
    if flags.json:
        data_json(properties)
        return
    for name, value in properties.items():
        if name == "packages":
            for package, installed in value.items():
                data(f"  {package:<14} {installed or 'not installed'}")
        elif name == "cuda":
            devices = ", ".join(value["devices"]) or "no device"
            data(f"{name:<16} {value['version'] or 'not in this build'} ({devices})")
        elif name == "free_disk_bytes":
            data(f"{'free disk':<16} {value / 1e9:.1f} GB")
        else:
            data(f"{name:<16} {value}")


def _small_numbers() -> dict[str, str]:
    """Return what computes products of few rows and in small numbers on this machine, and whether
    it has kernels of Headway's own."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    obstacle = float8_obstacle(device)
    of_kernels = kernel_obstacle(torch.device(device))
    return {
        "compiled loops": loops.description(),
        "float8 products": "scaled_mm, in training" if obstacle is None else f"none: {obstacle}",
        "kernels": "by Triton" if of_kernels is None else f"torch's alone: {of_kernels}",
    }


def describe() -> dict[str, Any]:
    """Versions, devices and memory, for `headway doctor`."""
    capability = torch.backends.cpu.get_cpu_capability()
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "headway": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "cpu instructions": f"{capability}, {_bfloat16_on_cpu()}",
        "memory": f"{memory_bytes() / 1e9:.1f} GB",
        "threads": torch.get_num_threads(),
        "cuda": {"version": torch.version.cuda, "devices": cuda},
        "mps": torch.backends.mps.is_available(),
        "device": f"{select_device()} (--device auto)",
        "free_disk_bytes": shutil.disk_usage(Path.cwd()).free,
        "packages": {
            name: version_of(name)
            for name in ("numpy", "tokenizers", "safetensors", "sacrebleu", "emoji", "transformers")
        },
    }


def _bfloat16_on_cpu() -> str:
    """Describe how the CPU computes bfloat16 products."""
    instructions = bfloat16_instructions()
    if instructions is None:
        return "bfloat16 unknown"
    return f"bfloat16 by {', '.join(instructions)}" if instructions else "no bfloat16 products"
