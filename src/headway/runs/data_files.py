"""Whether the files that a run was given are still those of its beginning.

Some tasks prepare their data once, others read them again whenever the run is resumed. In both
cases a file that was edited meanwhile is not what the user believes the model to learn from.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from headway.base.files import json_bytes, read_json, sha256_of, write_file
from headway.base.settings import flat
from headway.tasks.sections import RunSettings

NAME = "data_files.json"
SETTINGS = ("data.train", "data.valid")


def data_files(config: RunSettings) -> list[Path]:
    """Return the files and folders of the data of a run that exist."""
    settings = flat(config)
    paths: list[Path] = []
    for name in SETTINGS:
        value = settings.get(name)
        paths += map(Path, value if isinstance(value, tuple) else filter(None, [value]))
    # no named pipe, whose content is gone
    return [path for path in paths if path.is_file() or path.is_dir()]


def changed_files(folder: Path, files: Sequence[Path]) -> list[str]:
    """Return the files and folders that are not as `remember_files` found them.

    Those that were not recorded are left out.
    """
    path = folder / NAME
    recorded = read_json(path) if path.is_file() else None
    if not isinstance(recorded, dict):
        return []
    return [
        str(file)
        for file in files
        if isinstance(before := recorded.get(str(file)), dict) and not _is_as_before(file, before)
    ]


def remember_files(folder: Path, files: Sequence[Path]) -> None:
    """Record size, time and hash of the files of the data, and the hash of folders."""
    found = {str(file): _state(file) | {"sha256": _digest(file)} for file in files}
    write_file(folder / NAME, json_bytes(found))


def _is_as_before(file: Path, before: dict[str, object]) -> bool:
    """Read the file only if its size is the same and its time is not: a copy has another time."""
    state = _state(file)
    if state and all(before.get(key) == value for key, value in state.items()):
        return True
    is_possible = "bytes" not in state or state["bytes"] == before.get("bytes")
    return is_possible and _digest(file) == before.get("sha256")


def _state(file: Path) -> dict[str, object]:
    """Return size and time of a file; nothing for a folder, whose hash takes no longer."""
    if file.is_dir():
        return {}
    status = file.stat()
    return {"bytes": status.st_size, "modified": status.st_mtime_ns}


def _digest(file: Path) -> str:
    """Return the sha256 of a file, or of the names and sizes of those in a folder."""
    if file.is_file():
        return sha256_of(file)
    parts = sorted(part for part in file.rglob("*") if part.is_file())
    names = [f"{part.relative_to(file)} {part.stat().st_size}" for part in parts]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
