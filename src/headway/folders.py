"""Folders that appear complete or not at all, with a manifest of hashes. No torch.

The save protocol: everything goes into `NAME.tmp-ID/` and is flushed to disk, `MANIFEST.json` with
size and sha256 of each file goes last, then one rename makes it appear as `NAME/`. Whatever kills
the process and whenever, there is the old state or the new, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import DataError, HeadwayError
from headway.files import (
    NO_ROOM,
    TEMPORARY,
    cannot_write,
    check_new,
    flush_folder,
    read_json,
    remove_unfinished,
    temporary_path,
    write_file,
)

MANIFEST = "MANIFEST.json"
VERSION = 1


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path`, complete and durable, when the block ends well.

    Nothing is ever overwritten: `path` must not exist. On an error nothing is left behind.
    Only plain files may be put there: a link could name something outside. HeadwayError.
    """
    check_new(path)
    temporary = temporary_path(path)
    ours = True
    try:
        temporary.mkdir(parents=True)
        ours = False
        yield temporary
        ours = True
        _seal(temporary)
        os.rename(temporary, path)
        flush_folder(path.parent)
    except BaseException as error:
        remove_unfinished(temporary)
        # What else goes wrong in the block is the caller's, reading another file say.
        if isinstance(error, OSError) and (ours or error.errno in NO_ROOM):
            raise cannot_write(path, error) from error
        raise


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; when the block ends well, its files replace those of their names in `path`.

    Each file in `path` is the old one or the new one at any time. While they are replaced, the
    manifest lists both hashes, so that `verify_folder` accepts the folder however the process
    ends. Other files in `path` are left as they are. On an error `path` is unchanged. HeadwayError.
    """
    if not os.path.lexists(path):
        with new_folder(path) as place:
            yield place
        return
    temporary = temporary_path(path)
    try:
        temporary.mkdir()
        yield temporary
        new = _seal(temporary)
        previous = {name: _entry(path / name) for name in new if (path / name).is_file()}
        _write_manifest(path, new, previous)
        for name in new:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary / name, path / name)
            flush_folder((path / name).parent)
        _write_manifest(path, new)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        remove_unfinished(temporary)


def _seal(folder: Path) -> dict[str, dict[str, Any]]:
    """Flush every file, and write the manifest last; returns what the manifest lists."""
    inside = sorted(folder.rglob("*"))
    for entry in inside:
        plain = not entry.is_symlink() and (entry.is_file() or entry.is_dir())
        if not plain or not _is_inner(entry.relative_to(folder).as_posix()):
            raise HeadwayError("only files and folders with plain names can be saved", str(entry))
    files = [entry for entry in inside if entry.is_file()]
    listed = {file.relative_to(folder).as_posix(): _entry(file, flush=True) for file in files}
    _write_manifest(folder, listed)
    for inner in (entry for entry in inside if entry.is_dir()):
        flush_folder(inner)
    flush_folder(folder)
    return listed


def _entry(file: Path, flush: bool = False) -> dict[str, Any]:
    """Size and sha256 of a file, as the manifest lists them."""
    with file.open("rb") as handle:
        if flush:
            os.fsync(handle.fileno())
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"size": file.stat().st_size, "sha256": digest}


def _write_manifest(
    folder: Path,
    files: Mapping[str, dict[str, Any]],
    previous: Mapping[str, dict[str, Any]] | None = None,
) -> None:
    """previous: the files that are being replaced; each name may still hold its previous file."""
    manifest = {"version": VERSION, "files": files}
    if previous is not None:
        manifest["previous"] = previous
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    write_file(folder / MANIFEST, text.encode())


def verify_folder(path: Path, hint: str | None = None) -> None:
    """Check every file against the manifest; DataError names the first that differs.

    hint: how to get an intact folder again, for the message.
    """
    try:
        _verify_files(path)
    except DataError as error:
        raise DataError(error.what, error.where, hint) from error


def _verify_files(path: Path) -> None:
    where = str(path / MANIFEST)
    manifest = read_json(path / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise DataError("the manifest lists no files", where)
    if manifest.get("version") != VERSION:
        raise DataError(f"version {manifest.get('version')!r} of the manifest is unknown", where)
    previous = manifest.get("previous")
    replacing = isinstance(previous, dict)
    for name, entry in files.items():
        if not _is_inner(name) or not isinstance(entry, dict):
            raise DataError(f"the manifest lists the odd name {name!r}", where)
        before = previous.get(name) if replacing else None
        if replacing and before is None and not (path / name).exists():
            continue  # the process ended before this new file was moved here
        try:
            _verify_file(path, name, [entry, before] if isinstance(before, dict) else [entry])
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            raise DataError(why, str(path / name)) from error


def _verify_file(folder: Path, name: str, accepted: Sequence[dict[str, Any]]) -> None:
    """accepted: the entries of the manifest that the file may have, the current one first."""
    file = folder / name
    if not file.is_file():
        raise DataError("a file that the manifest lists is missing", str(file))
    if file.resolve() != folder.resolve() / name:
        raise DataError("a link, where the manifest lists a plain file", str(file))
    size = file.stat().st_size
    if all(size != entry.get("size") for entry in accepted):
        raise DataError(f"{size} bytes, the manifest says {accepted[0].get('size')}", str(file))
    if _entry(file) not in accepted:
        raise DataError("the content differs from the manifest's sha256", str(file))


def newest_verified(parent: Path, pattern: str) -> tuple[Path | None, list[str]]:
    """The folder with the highest number in its name that verifies, and why newer ones did not.

    `pattern` is a glob of one level, like "step-*". Nothing is printed here: the caller knows
    where its warnings go.
    """
    numbered = [(int(digits[-1]), p) for p in parent.glob(pattern) if (digits := _numbers(p.name))]
    skipped = []
    for _, path in sorted(numbered, reverse=True):
        if TEMPORARY.fullmatch(path.name):
            continue
        try:
            verify_folder(path)
        except HeadwayError as error:
            skipped.append(f"{path.name}: {error.what}")
        else:
            return path, skipped
    return None, skipped


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def sweep(parent: Path) -> list[Path]:
    """Remove what a killed write left behind; only names of this protocol. Returns them.

    Call it while holding the folder's lock: another process may be writing there right now.
    """
    left = [p for p in parent.iterdir() if TEMPORARY.fullmatch(p.name)]
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return left


def _is_inner(name: str) -> bool:
    """A plain relative name that stays inside its folder, on any system."""
    parts = name.split("/")
    return "\0" not in name and "\\" not in name and not {"", ".", ".."} & set(parts)
