"""The computer that a model runs on: device, number format, threads."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.errors import UsageError
from headway.settings import THREADS, setting

if TYPE_CHECKING:
    import torch

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt's parameter numbers in glibc's malloc.h


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "where to compute; auto takes a GPU if there is one"
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32", "bfloat16: matrix products in 16 bits (autocast), everything else in 32"
    )
    threads: int | None = setting(None, "CPU threads; none leaves it to torch", gt=0, le=THREADS)
    fast: bool = setting(
        True, "fast twins of attention, linear layers and dropout; no: the plain classes, slower"
    )
    compile: bool = setting(False, "torch.compile the model (minutes once, needs a C++ compiler)")


@dataclass(frozen=True)
class Machine:
    """What `prepare` decided."""

    device: str
    dtype: str
    threads: int

    def precision(self) -> AbstractContextManager[Any]:
        """Autocast for the forward pass, or nothing."""
        if self.dtype == "float32":
            return nullcontext()
        import torch

        return torch.autocast(self.device, dtype=getattr(torch, self.dtype))

    def __str__(self) -> str:
        threads = f" ({self.threads} threads)" if self.device == "cpu" else ""
        return f"{self.device}{threads} · {self.dtype}"


def prepare(config: MachineConfig) -> Machine:
    """Choose the device and set the process up for speed. Call before any tensor work."""
    _bound_kernel_caches()
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # Numbers below 1e-38 take a CPU a hundred times as long. Set before the first parallel work:
    # worker threads inherit it.
    torch.set_flush_denormal(True)
    _keep_freed_memory()
    found = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    device = config.device
    if device == "auto":
        device = "cuda" if found["cuda"] else "mps" if found["mps"] else "cpu"
    if not found[device]:
        there = ", ".join(name for name, is_there in found.items() if is_there)
        raise UsageError(f"machine.device={device}: there is none here", hint=f"one of: {there}")
    if config.compile and device == "cpu":
        _check_compiler()
    return Machine(device, config.dtype, torch.get_num_threads())


def _check_compiler() -> None:
    """UsageError now, and not in the first step, if torch.compile finds no C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise UsageError(
            "machine.compile needs a C++ compiler on a CPU, and there is none here",
            hint="install one (apt install g++, or xcode-select --install), name it in the "
            "environment variable CXX, or train without --compile",
        ) from error


def _bound_kernel_caches() -> None:
    """Keep oneDNN from remembering a compiled kernel for each of the last 1,024 shapes.

    Every batch has another shape, and with bfloat16 each remembered kernel holds scratch memory:
    4 GB after 2,000 steps of a model of 2 million parameters. 32 are as fast (docs/speed.md).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "32")


def _keep_freed_memory() -> None:
    """Let glibc reuse large blocks instead of returning each to the system.

    By default a tensor above 32 MB is mapped and unmapped every time, and its pages are cleared
    by the kernel: a third of the time of a cross-entropy over 8,000 words (docs/speed.md).
    """
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def _bfloat16_on_cpu() -> str:
    """Whether 16-bit products are computed as such; without, they are slower than 32 bits."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return "bfloat16 unknown"
    there = sorted(flags & {"avx512_bf16", "amx_bf16", "bf16"})
    return f"bfloat16 by {', '.join(there)}" if there else "no bfloat16 products"


def _memory_bytes() -> int:
    """Memory of the computer, or of the container that this process may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        granted = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return physical
    return min(physical, int(granted)) if granted.isdigit() else physical


def limit_memory() -> None:
    """Let allocations beyond the memory of the machine fail, so that they end in a message.

    Without a limit Linux grants them all, and ends the process (or another one) without a word when
    the pages are used. Not where there is a GPU: its driver reserves addresses without using them.
    """
    if sys.platform != "linux" or Path("/dev/nvidiactl").exists():
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _memory_bytes()
    if soft == resource.RLIM_INFINITY or soft > wanted:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def describe() -> dict[str, Any]:
    """What `headway doctor` and `headway --version` print."""
    import torch

    def version(name: str) -> str | None:
        return metadata.version(name) if util.find_spec(name) else None

    capability = torch.backends.cpu.get_cpu_capability()
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "headway": metadata.version("headway"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "cpu instructions": f"{capability}, {_bfloat16_on_cpu()}",
        "memory": f"{_memory_bytes() / 1e9:.1f} GB",
        "threads": torch.get_num_threads(),
        "cuda": {"version": torch.version.cuda, "devices": cuda},
        "mps": torch.backends.mps.is_available(),
        "free_disk_bytes": shutil.disk_usage(Path.cwd()).free,
        "packages": {
            name: version(name)
            for name in ("numpy", "tokenizers", "safetensors", "sacrebleu", "emoji", "transformers")
        },
    }


def most_exact(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on a device without it."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64
