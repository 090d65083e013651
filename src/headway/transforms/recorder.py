"""Recording what a function does on a device, and repeating it: CUDA graphs.

Small operations on a GPU are bound by launching their kernels. A CUDA graph launches all kernels of
a recorded function at once. It repeats them on the same memory, so that a function can be recorded
only if all that changes is in tensors of the device. Whatever Python computes is frozen.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch

R = TypeVar("R")

WARM_UP = 2
"""Runs before a recording, in which libraries choose kernels and allocate what they keep."""


class Recorder(abc.ABC):
    """Records what a function does on a device, and repeats it. device_type: of these devices.

    beside: one whose memory may be used again for what is computed on the way. The two are never
    replayed at once.
    """

    device_type: ClassVar[str]

    def __init__(self, device: torch.device, beside: Recorder | None = None) -> None:
        self.device, self.beside = device, beside

    @staticmethod
    @abc.abstractmethod
    def free_bytes(device: torch.device) -> int:
        """Return the number of bytes of the device that this process can still allocate."""

    @abc.abstractmethod
    def record(self, function: Callable[[], R]) -> R:
        """Call the function, and return its result, whose tensors `replay` overwrites."""

    @abc.abstractmethod
    def replay(self) -> None:
        """Repeat the operations of the recorded call, on the same tensors."""


class CudaRecorder(Recorder):
    """A CUDA graph."""

    device_type = "cuda"

    def __init__(self, device: torch.device, beside: Recorder | None = None) -> None:
        super().__init__(device, beside)
        self._graph = torch.cuda.CUDAGraph()

    @staticmethod
    def free_bytes(device: torch.device) -> int:
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + unused  # torch keeps what was freed

    def record(self, function: Callable[[], R]) -> R:
        with torch.cuda.device(self.device):
            stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            current = torch.cuda.current_stream()
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    function()
            current.wait_stream(stream)
            pool = self.beside._graph.pool() if isinstance(self.beside, CudaRecorder) else None
            try:
                # other threads may use the device meanwhile
                with torch.cuda.graph(self._graph, pool, stream, capture_error_mode="thread_local"):
                    return function()
            finally:
                # torch stays on the stream of a recording that fails: later operations would not
                # await those before it
                torch.cuda.set_stream(current)

    def replay(self) -> None:
        self._graph.replay()


def refusal_of(error: BaseException) -> BaseException:
    """Return the exception that ended a recording: the end of the recording raises another one."""
    first, earlier = error, error.__context__
    while earlier is not None:
        if isinstance(earlier, RuntimeError):
            first = earlier
        earlier = earlier.__context__
    return first


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an exception, or its class if it has none."""
    return str(error).split("\n")[0] or type(error).__name__
