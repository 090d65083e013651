"""`headway doctor`: versions and devices; --measure: what this machine does; FOLDER: a folder."""

import os
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from headway import __version__
from headway.base.devices import bfloat16_instructions, float8_obstacle, select_device
from headway.base.memory import memory_bytes
from headway.base.settings import setting
from headway.cli.flags import PrintFlags, as_flags
from headway.cli.version import version_of
from headway.terminal.console import data, data_json
from headway.transforms.fast import loops
from headway.transforms.kernels import obstacle as kernel_obstacle

KINDS = {
    "avx2": "AVX2 only",
    "avx512": "AVX-512 without bfloat16",
    "bfloat16": "bfloat16 instructions",
    "gpu": "NVIDIA GPU",
}
"""The kinds of machines whose speed differs most, by short names (docs/speed.md)."""

OTHER_KIND = "another kind"
PACKAGES = (
    *("numpy", "tokenizers", "safetensors", "sacrebleu"),
    *("emoji", "matplotlib", "pillow", "pyarrow", "starlette", "transformers"),
)
"""Packages whose versions are shown: some that are always needed, and one of each common extra."""


@as_flags
class DoctorFlags(PrintFlags):
    measure: bool = setting(
        False,
        "Measure what this machine does instead, in at most two minutes: reading of memory, "
        "products of layers, training and writing, and what auto chooses.",
    )


def doctor(folder: Path | None = None, /, *, flags: DoctorFlags = DoctorFlags()) -> None:
    """Show versions, devices, optional packages and disk, for bug reports.

    With --measure, it measures the speed of this machine instead; with a folder, it explains what a
    Hugging Face model is, and what of it can be used.

    Parameters
    ----------
    folder
        A folder with a config.json: its family, options, parameters, memory, tokenizer, licence,
        and what of it cannot be used, and why. Its weights are not read.
    """
    if folder is not None:
        _explain(folder, flags.json)
        return
    if flags.measure:
        # it imports training and all tasks, which take longer than the rest of this command
        from headway.cli.measure import SIZES, lines, measure

        measured = measure(SIZES)
        if flags.json:
            data_json({"kind": machine_kind(), **asdict(measured)})
            return
        for line in (f"{'kind':<22}{machine_kind()}", *lines(measured)):
            data(line)
        return
    properties = describe()
    packages = properties.pop("packages")
    properties = {**properties, **_small_numbers(), "packages": packages}
    if flags.json:
        data_json(properties)
        return
    for name, value in properties.items():
        if name == "packages":
            data("packages")
            for package, installed in value.items():
                data(f"  {package:<14} {installed or 'not installed'}")
        elif name == "cuda":
            devices = ", ".join(value["devices"]) or "no device"
            data(f"{name:<16} {value['version'] or 'not in this build'} ({devices})")
        elif name == "free_disk_bytes":
            data(f"{'free disk':<16} {value / 1e9:.1f} GB")
        elif name == "mps":
            data(f"{name:<16} {'available' if value else 'no (a GPU of Apple)'}")
        else:
            data(f"{name:<16} {value}")


def _explain(folder: Path, as_json: bool) -> None:
    from headway.interop.explanation import explain

    found = explain(folder)
    if as_json:
        data_json(asdict(found))
        return
    memory = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in found.memory.items())
    lines = {
        "folder": found.folder,
        "usable": "yes" if found.usable else "no",
        "family": found.family,
        "class": found.architecture,
        "options": ", ".join(found.settings),
        "parameters": None if found.parameters is None else f"{found.parameters:,}",
        "memory": memory,
        "tokenizer": found.tokenizer,
        "end tokens": ", ".join(map(str, found.ends)),
        "template": found.template,
        "licence": found.licence,
    }
    for name, value in lines.items():
        data(f"{name:<16} {value or 'none found'}")
    for problem in found.problems:
        data(f"{'note':<16} {problem}")


def _small_numbers() -> dict[str, str]:
    """Return what computes products of few rows and in small numbers on this machine, and whether
    it has kernels of Headway's own."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    obstacle = float8_obstacle(device)
    of_kernels = kernel_obstacle(torch.device(device))
    return {
        "compiled loops": loops.description(),
        "float8 products": "scaled_mm, in training" if obstacle is None else f"none: {obstacle}",
        "Triton kernels": "used" if of_kernels is None else f"none: {of_kernels}",
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
        "kind": machine_kind(),
        "memory": f"{memory_bytes() / 1e9:.1f} GB",
        "threads": torch.get_num_threads(),
        "cuda": {"version": torch.version.cuda, "devices": cuda},
        "mps": torch.backends.mps.is_available(),
        "device": f"{select_device()} (--device auto)",
        "free_disk_bytes": shutil.disk_usage(Path.cwd()).free,
        "packages": {name: version_of(name) for name in PACKAGES},
    }


def machine_kind() -> str:
    """Return the kind of this machine, one of the values of `KINDS`, or `OTHER_KIND`.

    A processor whose instructions are limited by ATEN_CPU_CAPABILITY or ONEDNN_MAX_CPU_ISA is of
    the kind that computes with these.
    """
    if torch.version.cuda is not None and torch.cuda.is_available():
        return KINDS["gpu"]
    capability = torch.backends.cpu.get_cpu_capability()
    is_limited = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper().startswith("AVX2")
    if capability == "AVX2" or (is_limited and capability.startswith("AVX512")):
        return KINDS["avx2"]
    if bfloat16_instructions():
        return KINDS["bfloat16"]
    return KINDS["avx512"] if capability.startswith("AVX512") else OTHER_KIND


def _bfloat16_on_cpu() -> str:
    """Describe how the CPU computes bfloat16 products."""
    instructions = bfloat16_instructions()
    if instructions is None:
        return "bfloat16 unknown"
    return f"bfloat16 by {', '.join(instructions)}" if instructions else "no bfloat16 products"
