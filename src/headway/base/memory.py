"""The memory of the computer: what is free, what a process may use, and what freed blocks do."""

import ctypes
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from headway.base.errors import UsageError

USED = 0.8
"""Fraction of the free memory that a step of training may take; kernels and other programs need the
rest."""

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt's parameter numbers in glibc's malloc.h


def bound_kernel_caches() -> None:
    """Keep oneDNN from caching a compiled kernel for each of the last 1,024 shapes.

    Batches have different shapes, and with bfloat16 each cached kernel holds scratch memory:
    4 GB after 2,000 steps of a model of 2 million parameters. 32 are as fast (docs/log/speed.md).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "32")


def keep_freed_memory() -> None:
    """Let glibc reuse large blocks instead of returning each to the system.

    By default a tensor above 32 MB is mapped and unmapped every time, and its pages are cleared
    by the kernel: a third of the time of a cross-entropy over 8,000 words (docs/log/speed.md).
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


def memory_bytes() -> int:
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
    free = memory_bytes()
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        free = min(free, 1024 * int(available.split()[1]))
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")
        free = min(free, max(0, memory_bytes() - int(used)))
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
    memory = memory_bytes()
    if soft == resource.RLIM_INFINITY or soft > memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
