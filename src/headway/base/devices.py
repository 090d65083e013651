"""The computer that a model runs on: device, dtype, threads."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headway.base.errors import UsageError
from headway.base.memory import bound_kernel_caches, keep_freed_memory
from headway.base.ranks import ALONE, Ranks
from headway.base.settings import COPIES, THREADS, setting
from headway.base.threads import settle_threads

if TYPE_CHECKING:
    import torch


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
    graphs: bool | None = setting(
        None,
        "record a training step of language models and image classifiers as a CUDA graph, which "
        "launches all of its kernels at once; if unset, on an NVIDIA GPU with enough memory",
    )
    shard: Literal["auto", "replicate", "shard"] = setting(
        "auto",
        "what each of several processes holds: replicate: the whole model; shard: a part of each "
        "parameter, of its gradient and of the state of the optimizer (FSDP); auto: shard if they "
        "would not fit into the memory of a process",
    )
    micro_batches: int | None = setting(
        None,
        "number of equal parts in which a batch is computed, one after the other; the update is "
        "that of training.accumulate smaller batches. If unset, the smallest whose step fits into "
        "the memory that is free when the run starts",
        gt=0,
        le=COPIES,
    )


@dataclass(frozen=True)
class Machine:
    """The device, dtype and number of threads that `prepare` selected. ranks: the processes that
    train together."""

    device: str
    dtype: str
    threads: int
    ranks: Ranks = ALONE

    def precision(self) -> AbstractContextManager[object]:
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
        count = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        threads = f" ({count})" if self.device == "cpu" else ""
        is_slow = self.dtype == "bfloat16" and not multiplies_bfloat16(self.device)
        note = ", slower than float32 on this processor: --dtype float32" if is_slow else ""
        processes = "" if self.ranks.is_alone else f"{self.ranks.size} processes, each on "
        return f"{processes}{self.device}{threads} · {self.dtype}{note}"


def prepare(config: MachineConfig, *, rows: int = 16) -> Machine:
    """Select the device and set up the process for speed, before the first tensor operation.

    rows: the number of vectors of the products by which the number of threads is chosen, unless it
    is set: few for decoding, many for training.

    UsageError if the device, float8 or CUDA graphs on it, or a compiler that is needed is not
    available.
    """
    bound_kernel_caches()
    import torch

    # Denormal numbers (below 1e-38) are a hundred times as slow on a CPU. Set before the first
    # parallel work, since worker threads inherit it.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    device = select_device(config.device)
    if config.dtype == "float8":
        require_float8(device)
    if config.compile and device == "cpu":
        _check_compiler()
    if config.graphs and device != "cuda":
        raise UsageError(
            f"machine.graphs=true: the device is {device}, and CUDA graphs are for NVIDIA GPUs",
            hint="leave out --graphs",
        )
    if device == "cuda":
        set_up_gpu(repeats_shapes=bool(config.graphs))
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


def most_exact(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on a device without it."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


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
