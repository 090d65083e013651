"""Advice for a run that does not fit into memory: settings of its configuration to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headway.base.errors import OutOfMemory, is_out_of_memory
from headway.base.settings import flat


@contextmanager
def memory_explained(config: Any) -> Iterator[None]:
    """Raise `OutOfMemory`, with advice for this run, for a failed allocation in the block."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory.of(error, less_memory(config)) from error


def less_memory(config: Any) -> str:
    """Flags that reduce the memory of a run; the first ones keep the batch size of an update."""
    settings = flat(config)
    advice = []
    accumulate = settings.get("training.accumulate", 1)
    for key in ("training.tokens", "training.batch_size"):
        size = settings.get(key)
        if isinstance(size, int) and size > 1:
            flag = f"--{key}".replace("_", "-")
            advice.append(f"{flag} {size // 2} --training.accumulate {2 * accumulate}")
    if settings.get("training.recompute") is False:
        advice.append("--training.recompute true")
    return "; ".join([*advice, "a smaller model"])
