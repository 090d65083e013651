"""The computer that a model runs on: device, dtype, threads."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway import __version__
from headway.errors import UsageError
from headway.settings import THREADS, setting
from headway.threads import settle_threads

if TYPE_CHECKING:
    import torch


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt's parameter numbers in glibc's malloc.h


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "device that computes; auto selects a GPU if available"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float8"] = setting(
        "auto",
        "dtype of matrix products: bfloat16 is mixed precision (autocast), float8 is bfloat16 with "
        "the linear layers of the blocks in 8 bits, on GPUs that have it; auto is bfloat16 on "
        "devices with instructions for its products, else float32",
    )
    threads: int | None = setting(
        None,
        "number of CPU threads; if unset, that of OMP_NUM_THREADS, or the one that is fastest when "
        "the run starts",
        gt=0,
        le=THREADS,
    )
    fast: bool = setting(
        True,
        "fast implementations of attention, linear layers and dropout; if false, the plain ones",
    )
    compile: bool = setting(
        False,
        "compile the blocks of the model with torch.compile; meant for a GPU: on a CPU it takes a "
        "minute at the start and training is slower",
    )
    graphs: bool = setting(
        False,
        "record a training step of language models and image classifiers as a CUDA graph, which "
        "launches all of its kernels at once: for small models or batches on a GPU",
    )


@dataclass(frozen=True)
class Machine:
    """The device, dtype and number of threads that `prepare` selected."""

    device: str
    dtype: str
    threads: int

    def precision(self) -> AbstractContextManager[Any]:
        """The context of a forward pass: autocast for bfloat16 and float8, else no change.

        The products in float8 are a transform of the model (`headway.transforms.float8`).
        """
        if self.dtype == "float32":
            return nullcontext()
        import torch

        return torch.autocast(self.device, dtype=torch.bfloat16)

    @property
    def prefetches(self) -> bool:
        """Whether batches are made in a thread while the device computes: on a GPU. On a CPU the
        thread would take the time of the computation."""
        return self.device != "cpu"

    def __str__(self) -> str:
        threads = f" ({self.threads} threads)" if self.device == "cpu" else ""
        is_slow = self.dtype == "bfloat16" and not multiplies_bfloat16(self.device)
        note = ", slower than float32 on this processor: --dtype float32" if is_slow else ""
        return f"{self.device}{threads} · {self.dtype}{note}"


def prepare(config: MachineConfig, *, rows: int = 16) -> Machine:
    """Select the device and set up the process for speed, before the first tensor operation.

    rows: the number of vectors of the products by which the number of threads is chosen, unless it
    is set: few for decoding, many for training.

    UsageError if the device, float8 or CUDA graphs on it, or a compiler that is needed is not
    available.
    """
    _bound_kernel_caches()
    import torch

    # Denormal numbers (below 1e-38) are a hundred times as slow on a CPU. Set before the first
    # parallel work, since worker threads inherit it.
    torch.set_flush_denormal(True)
    _keep_freed_memory()
    device = select_device(config.device)
    if config.dtype == "float8":
        from headway.float8_gpus import require_float8

        require_float8(device)
    if config.compile and device == "cpu":
        _check_compiler()
    if config.graphs and device != "cuda":
        raise UsageError(
            f"machine.graphs=true: the device is {device}, and CUDA graphs are for NVIDIA GPUs",
            hint="leave out --graphs",
        )
    if device == "cuda":
        set_up_gpu(repeats_shapes=config.graphs)
    if device == "cpu" or config.threads is not None:
        settle_threads(config.threads, rows=rows)
    return Machine(device, dtype_for(device, config.dtype), torch.get_num_threads())


def dtype_for(device: str, dtype: str) -> str:
    """Return the dtype of a device's matrix products: the setting, or what auto selects."""
    if dtype != "auto":
        return dtype
    return "bfloat16" if multiplies_bfloat16(device) else "float32"


def select_device(name: str = "auto") -> str:
    """Return the device of that name; for auto, a GPU if torch can use one, else the CPU.

    UsageError if torch knows no such device, or this machine has none.
    """
    import torch

    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return available[0]
    try:
        device = torch.device(name)
    except RuntimeError:
        is_available = False
    else:
        is_other = device.type not in ("cuda", "mps", "cpu")  # of an extension of torch
        is_available = is_other or device.type in available
        if device.type == "cuda" and device.index:
            is_available = device.index < torch.cuda.device_count()
    if not is_available:
        hint = f"one of: {', '.join(['auto', *available])}"
        raise UsageError(f"device={name}: not available on this machine", hint=hint)
    return name


def set_up_gpu(*, repeats_shapes: bool = False) -> None:
    """Select the implementations of attention on an NVIDIA GPU.

    cuDNN builds a plan for each new shape: 5 ms in the forward pass and 50 ms in the backward pass
    on an H100, where the kernels take microseconds. Batches of sentences and prompts nearly always
    have new shapes, so cuDNN is for training that repeats its shapes (CUDA graphs).
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(repeats_shapes)


def _check_compiler() -> None:
    """UsageError before training, not in its first step, if there is no C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise UsageError(
            "machine.compile needs a C++ compiler on a CPU, and none is installed",
            hint="install one (apt install g++, or xcode-select --install), set the environment "
            "variable CXX to its path, or train without --compile",
        ) from error


def _bound_kernel_caches() -> None:
    """Keep oneDNN from caching a compiled kernel for each of the last 1,024 shapes.

    Batches have different shapes, and with bfloat16 each cached kernel holds scratch memory:
    4 GB after 2,000 steps of a model of 2 million parameters. 32 are as fast (docs/speed.md).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "32")


def _keep_freed_memory() -> None:
    """Let glibc reuse large blocks instead of returning each to the system.

    By default a tensor above 32 MB is mapped and unmapped every time, and its pages are cleared
    by the kernel: a third of the time of a cross-entropy over 8,000 words (docs/speed.md).
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> None:
    """Give memory that this process has freed back to the system: for programs that now wait.

    The blocks that a computation has freed stay with the process, and requests of ever different
    sizes leave ever more gaps between those in use.
    """
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library, where it is glibc: others have no such functions."""
    is_glibc = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
    return ctypes.CDLL(None) if is_glibc else None


def multiplies_bfloat16(device: str) -> bool:
    """Whether the device has instructions for bfloat16 products; a CPU of unknown kind has none.

    On a CPU without them a bfloat16 product takes 3 to 30 times as long as one in float32. Of
    NVIDIA's GPUs those since Ampere have them; Apple's GPUs compute them as float32.
    """
    if device.startswith("cuda"):
        import torch

        return not torch.cuda.is_available() or torch.cuda.is_bf16_supported(False)
    return device.startswith("cpu") and bool(bfloat16_instructions())


_WITHOUT_BFLOAT16 = {
    "SSE41",
    "AVX",
    "AVX2",
    "AVX2_VNNI",
    "AVX2_VNNI_2",
    "AVX512_CORE",
    "AVX512_CORE_VNNI",
}
"""Limits of `ONEDNN_MAX_CPU_ISA` under which oneDNN does not use instructions for bfloat16."""


@cache
def bfloat16_instructions() -> tuple[str, ...] | None:
    """Return the names of the instructions for bfloat16 products that oneDNN uses on this CPU, or
    None if unknown."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_BFLOAT16:
        return ()
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return None
    return tuple(sorted(flags & {"avx512_bf16", "amx_bf16", "bf16"}))


def _bfloat16_on_cpu() -> str:
    """Describe how the CPU computes bfloat16 products."""
    instructions = bfloat16_instructions()
    if instructions is None:
        return "bfloat16 unknown"
    return f"bfloat16 by {', '.join(instructions)}" if instructions else "no bfloat16 products"


def _memory_bytes() -> int:
    """The memory of the computer, or the memory limit of the container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def free_memory(device: str) -> int:
    """Return the number of bytes that a process can still allocate on a device.

    On a GPU: what the driver and torch's allocator have free. On a CPU: what the system reports as
    available, within the memory limit of the container. Raises UsageError for another device.
    """
    import torch

    if device.startswith("cuda"):
        reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(torch.cuda.mem_get_info()[0]) + reserved
    if device != "cpu":
        raise UsageError(
            f"the free memory of the device {device} is unknown",
            hint="set the batch size as a number: --training.tokens 4096",
        )
    free = _memory_bytes()
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        free = min(free, 1024 * int(available.split()[1]))
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")
        free = min(free, max(0, _memory_bytes() - int(used)))
    return free


def limit_memory() -> None:
    """Make allocations beyond the memory of the machine fail, so that they are reported.

    Without a limit Linux grants them all, and kills a process without a message when the pages are
    used. There is no limit on a machine with a GPU, whose driver reserves unused addresses.
    """
    if sys.platform != "linux" or Path("/dev/nvidiactl").exists():
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    memory = _memory_bytes()
    if soft == resource.RLIM_INFINITY or soft > memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))


def version_of(package: str) -> str | None:
    """Return the version of an installed package without importing it; None if there is none."""
    if util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a source tree that is only on the search path
        return "unknown"


def describe() -> dict[str, Any]:
    """Versions, devices and memory, for `headway doctor`."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "headway": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "cpu instructions": f"{capability}, {_bfloat16_on_cpu()}",
        "memory": f"{_memory_bytes() / 1e9:.1f} GB",
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


def most_exact(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on a device without it."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64
