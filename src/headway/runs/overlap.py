"""Which held-out examples of a run are in its training data, too; counted once for each run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headway.base.errors import HeadwayError
from headway.base.files import json_bytes, read_json, write_file
from headway.data.overlap import Overlap, overlap
from headway.runs.data_files import data_files
from headway.runs.recipes import saved
from headway.tasks.registry import task_of_config

FILE = "overlap.json"
LARGEST = 64 * 2**20
"""Bytes of data above which they are not read again."""
AT_ONCE = 4 * 2**20
"""The same at the end of a training run, where a larger file would make the user wait."""


def overlap_of(run: Path, largest: int = LARGEST) -> Overlap | str:
    """Return the overlap of the training data and the held-out data of a run, or why it is unknown.

    It is counted from the files of the data, and kept in the folder of the run. largest: size of
    the data, in bytes, above which it is not counted.
    """
    if (run / FILE).is_file():
        return Overlap(**read_json(run / FILE))
    config = saved(run)
    task = task_of_config(config)
    if task.sides is None:
        return f"the examples of {task.name.replace('_', ' ')} are not compared"
    if (size := _size(data_files(config))) > largest:
        return f"the data are large, {size / 2**20:,.0f} MB"
    try:
        found = overlap(task.sides(config.data))
    except (HeadwayError, OSError):
        return "the data cannot be read again"
    write_file(run / FILE, json_bytes(asdict(found)))
    return found


def _size(files: Sequence[Path]) -> int:
    """Return the size of files and folders, in bytes."""
    inner = (part for file in files for part in ([file] if file.is_file() else file.rglob("*")))
    return sum(part.stat().st_size for part in inner if part.is_file())
