"""Whether the files that a run was given are still those of its beginning.

Some tasks prepare their data once, others read them again whenever the run is resumed. In both
cases a file that was edited meanwhile is not what the user believes the model to learn from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.files import read_json, write_file
from headway.settings import flat

NAME = "data_files.json"
SETTINGS = ("data.train", "data.valid")


def changed_files(folder: Path, config: Any) -> list[str]:
    """Return the files and folders of the data that are not as `remember_files` found them.

    Those that are gone or were not recorded are left out.
    """
    path = folder / NAME
    recorded = read_json(path) if path.is_file() else None
    if not isinstance(recorded, dict):
        return []
    return [
        str(file)
        for file in _files(config)
        if isinstance(before := recorded.get(str(file)), dict) and not _is_as_before(file, before)
    ]


def remember_files(folder: Path, config: Any) -> None:
    """Record size, time and hash of the files of the data."""
    found = {str(file): _state(file) | {"sha256": _digest(file)} for file in _files(config)}
    write_file(folder / NAME, (json.dumps(found, indent=1) + "\n").encode())


def _files(config: Any) -> Iterator[Path]:
    settings = flat(config)
    for name in SETTINGS:
        value = settings.get(name)
        for text in (value,) if isinstance(value, str) else value or ():
            path = Path(text)
            if path.is_file() or path.is_dir():  # no named pipe, whose content is gone
                yield path


def _is_as_before(file: Path, before: dict[str, Any]) -> bool:
    """Compare hashes only if size or time differ: a copy has another time."""
    state = _state(file)
    if all(before.get(key) == value for key, value in state.items()):
        return True
    return state["bytes"] == before.get("bytes") and _digest(file) == before.get("sha256")


def _state(file: Path) -> dict[str, int]:
    parts = _parts(file)
    return {
        "bytes": sum(part.stat().st_size for part in parts),
        "modified": max((part.stat().st_mtime_ns for part in parts), default=0),
    }


def _digest(file: Path) -> str:
    """Return the sha256 of a file, or of the names and sizes of those in a folder."""
    if file.is_file():
        with file.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    names = [f"{part.relative_to(file)} {part.stat().st_size}" for part in _parts(file)]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _parts(file: Path) -> list[Path]:
    if file.is_file():
        return [file]
    return sorted(part for part in file.rglob("*") if part.is_file())
