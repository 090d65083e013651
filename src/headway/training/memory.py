"""Measured memory: the peak of live tensors while a function runs."""

import os
from collections.abc import Callable

import torch


def peak_memory(run: Callable[[], None], device: str = "cpu") -> int:
    """Return the peak number of bytes of live tensors during `run`, above those before.

    On a GPU they are counted by torch's allocator, on a CPU by torch's profiler.
    """
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or it writes to standard error
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        acc_events=True,  # or torch 2.11 warns of cycles, of which there are none
    ) as profile:
        run()
    assert profile.profiler is not None and profile.profiler.kineto_results is not None
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        most = max(most, alive)
    return most
