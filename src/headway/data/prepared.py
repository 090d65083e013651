"""Prepared data of a run: reused if it exists, else made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

C = TypeVar("C")
Emit = Callable[[dict[str, Any]], None]
"""Receives progress events while data is prepared; raises `Interrupted` if the run must stop."""
Progress = Callable[[int], None]
"""Receives how much has been done so far: read of some data, or before each batch of an evaluation
the number of its examples. An exception that it raises ends the work."""


def prepared(
    folder: Path,
    open_it: Callable[[Path], C],
    make: Callable[[Path, Progress], C],
    size: Callable[[C], dict[str, Any]],
    emit: Emit,
    unit: str,
) -> C:
    """Open the prepared data in `folder` if it exists, else make it.

    open_it: opens existing data, and raises DataError if it does not fit the run. make: writes and
    opens the data; the folder appears only when it is complete. size: returns the `count` and
    `unit` of the data, and perhaps the numbers of examples that were `skipped`, by reason. emit:
    receives the progress and the size. unit: what the progress counts, such as "bytes".
    """
    reused = folder.exists()
    progress = progress_of(emit, folder.name, unit)
    data = open_it(folder) if reused else make(folder, progress)
    emit({"kind": "prepared", "what": folder.name, **size(data), "reused": reused})
    return data


def progress_of(emit: Emit, what: str, unit: str) -> Progress:
    """Return a function that emits how much of `what` has been read, in `unit`."""
    return lambda done: emit({"kind": "preparing", "what": what, "done": done, "unit": unit})


def numbered(name: str, count: int) -> list[str]:
    """Return the folder names of `count` parts of a split: "train", or "train-1", "train-2" ..."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
