"""What to change where a run does not fit into memory: settings that its configuration has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headway.errors import OutOfMemory, is_out_of_memory
from headway.settings import flat


@contextmanager
def memory_explained(config: Any) -> Iterator[None]:
    """Turn an allocation that failed in the block into `OutOfMemory` with advice for this run."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory.of(error, less_memory(config)) from error


def less_memory(config: Any) -> str:
    """Flags that make a run of this configuration need less memory; the first ones leave the
    number of examples of an update as it is."""
    settings = flat(config)
    advice = []
    accumulate = settings.get("training.accumulate", 1)
    for key in ("training.tokens", "training.rows"):
        size = settings.get(key)
        if isinstance(size, int) and size > 1:
            advice.append(f"--{key} {size // 2} --training.accumulate {2 * accumulate}")
    if settings.get("training.recompute") is False:
        advice.append("--training.recompute true")
    return "; ".join([*advice, "a smaller model"])
