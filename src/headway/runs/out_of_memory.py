"""Advice for a run that does not fit into memory: settings of its configuration to change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headway.base.config_files import RUN_FILE, read_run_file
from headway.base.errors import OutOfMemory, is_out_of_memory


@contextmanager
def memory_explained(folder: Path) -> Iterator[None]:
    """Raise `OutOfMemory`, with advice for the run in a folder, if the block lacks memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        settings = read_run_file(folder) if (folder / RUN_FILE).is_file() else {}
        raise OutOfMemory.of(error, less_memory(settings)) from error


def less_memory(settings: Mapping[str, object]) -> str:
    """Flags that reduce the memory of a run; the first one keeps the batch size of an update.

    settings: those of the run, by dotted key.
    """
    advice = []
    parts = int(str(settings.get("machine.micro_batches") or 1))
    for key in ("training.tokens", "training.batch_size"):
        size = settings.get(key, 1) or 2  # unset: decided when the run begins
        if isinstance(size, int) and size > parts:
            more = next(n for n in range(parts + 1, size + 1) if size % n == 0)
            advice.append(f"--machine.micro-batches {more}")
    if settings.get("training.recompute") is False:
        advice.append("--training.recompute true")
    return "; ".join([*advice, "a smaller model"])
