"""Folders that are written atomically, with a manifest of hashes. Does not import torch.

The save protocol: all files are written to `NAME.tmp-ID/` and flushed to disk, then `MANIFEST.json`
with the size and sha256 of each file, then one rename makes the folder `NAME/`. Whenever the
process is killed, the folder has the old state or the new one, never a part of it.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, HeadwayError
from headway.base.files import (
    DISK_ERRORS,
    TEMPORARY,
    cannot_write,
    check_new,
    flush_folder,
    is_locked_by_us,
    make_durable_folder,
    read_json,
    remove_unfinished,
    remove_unfinished_files,
    sha256_of,
    temporary_path,
    write_file,
)

MANIFEST = "MANIFEST.json"
VERSION = 1
Entry = dict[str, object]
"""The size and sha256 of a file in the manifest."""
INPUT = "input"
"""The folder in a run folder with the data that a command read from pipes."""


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; it becomes `path`, complete and durable, when the block ends.

    `path` must not exist. After an error, the temporary folder is removed; those that killed
    processes left beside it are removed at the next call. Only plain files may be
    put into it, since a link could point outside. HeadwayError if it cannot be written.
    """
    check_new(path)
    in_block = False
    try:
        with _temporary_folder(path) as temporary:
            in_block = True
            yield temporary
            in_block = False
            _seal(temporary)
            os.rename(temporary, path)
            flush_folder(path.parent)
    except BaseException as error:
        # Other errors in the block are the caller's, such as a failed read of another file.
        if isinstance(error, OSError) and (not in_block or error.errno in DISK_ERRORS):
            raise cannot_write(path, error) from error
        raise


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends, its files replace those in `path`.

    Each file in `path` is the old or the new one at any time. While files are replaced, the
    manifest lists both hashes: whenever the process ends, `verify_folder` accepts all old or all
    new files, and refuses some of both. Files of other names in `path` stay unchanged. After an
    error in the block, `path` is unchanged. HeadwayError if it cannot be written.
    """
    if not os.path.lexists(path):
        with new_folder(path) as folder:
            yield folder
        return
    try:
        with _temporary_folder(path) as temporary:
            yield temporary
            new = _seal(temporary)
            previous = {name: _entry(path / name) for name in new if (path / name).is_file()}
            _write_manifest(path, new, previous)
            for name in new:
                make_durable_folder((path / name).parent)
                os.replace(temporary / name, path / name)
                flush_folder((path / name).parent)
            _write_manifest(path, new)
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, locked by this process and removed after the block.

    Before that, the unfinished files beside `path` of processes that have ended are removed.
    """
    make_durable_folder(path.parent)
    with suppress(OSError):
        remove_unfinished_files(path.parent)
    temporary, descriptor = _new_locked_folder(path)
    try:
        yield temporary
    finally:
        try:
            remove_unfinished(temporary)
        finally:
            os.close(descriptor)


def _new_locked_folder(path: Path) -> tuple[Path, int]:
    while True:
        temporary = temporary_path(path)
        temporary.mkdir()
        try:
            descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another process has removed it already
            continue
        except BaseException:
            remove_unfinished(temporary)
            raise
        if is_locked_by_us(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _seal(folder: Path) -> dict[str, Entry]:
    """Flush every file and then write the manifest; returns its entries."""
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


def _entry(file: Path, flush: bool = False) -> Entry:
    """The entry of a file in the manifest: its size and sha256."""
    if flush:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    return {"size": file.stat().st_size, "sha256": sha256_of(file)}


def _write_manifest(
    folder: Path,
    files: Mapping[str, Entry],
    previous: Mapping[str, Entry] | None = None,
) -> None:
    """Write the manifest. previous: entries of files that are being replaced and are valid too."""
    manifest: dict[str, object] = {"version": VERSION, "files": files}
    if previous is not None:
        manifest["previous"] = previous
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    write_file(folder / MANIFEST, text.encode())


def verify_folder(path: Path, hint: str | None = None) -> None:
    """Compare every file with the manifest. DataError names the first that differs.

    hint: how to get an intact folder again, for the error message.
    """
    try:
        _verify_files(path)
    except DataError as error:
        raise DataError(error.what, error.where, hint) from error


def _verify_files(path: Path) -> None:
    where = str(path / MANIFEST)
    manifest = read_json(path / MANIFEST)
    files = check_manifest(manifest, where)
    previous = manifest.get("previous")
    replacing = isinstance(previous, dict)
    old: list[str] = []
    new: list[str] = []
    for name, entry in files.items():
        before = previous.get(name) if replacing else None
        if replacing and before is None and not (path / name).exists():
            old.append(name)  # the process ended before this new file was moved here
            continue
        accepted = [entry, before] if isinstance(before, dict) else [entry]
        try:
            found = _verify_file(path, name, accepted)
        except OSError as error:
            raise DataError(
                f"the file cannot be read: {error.strerror or error}", str(path / name)
            ) from error
        if replacing and entry != before:
            (new if found == entry else old).append(name)
    if old and new:
        raise DataError(
            f"the files are of two versions, since their replacement was interrupted: {new[0]} is "
            f"new, but {old[0]} is old",
            str(path),
        )


def check_manifest(manifest: Any, where: str) -> dict[str, Entry]:
    """Return the entries of the files in a manifest. DataError for a manifest of another form."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise DataError("the manifest lists no files", where)
    if manifest.get("version") != VERSION:
        raise DataError(
            f"the manifest has version {manifest.get('version')!r}, expected {VERSION}", where
        )
    for name, entry in files.items():
        if not _is_inner(name) or not isinstance(entry, dict):
            raise DataError(f"the manifest lists the invalid file name {name!r}", where)
    return files


def _verify_file(folder: Path, name: str, accepted: Sequence[Entry]) -> Entry:
    """Return the entry of a file. DataError if it is none of the accepted ones, of which the first
    is current."""
    file = folder / name
    if not file.is_file():
        raise DataError("the file is missing, although the manifest lists it", str(file))
    if file.resolve() != folder.resolve() / name:
        raise DataError("this is a link, but the manifest lists a plain file", str(file))
    size = file.stat().st_size
    if all(size != entry.get("size") for entry in accepted):
        raise DataError(
            f"the file has {size} bytes, but the manifest lists {accepted[0].get('size')}",
            str(file),
        )
    entry = _entry(file)
    if entry not in accepted:
        raise DataError("the sha256 of the file differs from the manifest", str(file))
    return entry


def newest_verified(parent: Path, pattern: str) -> tuple[Path | None, dict[Path, str]]:
    """The intact folder with the highest number in its name, and what is wrong with newer ones.

    pattern: a glob of one level, such as "step-*".
    """
    numbered = [(int(digits[-1]), p) for p in parent.glob(pattern) if (digits := _numbers(p.name))]
    damaged: dict[Path, str] = {}
    for _, path in sorted(numbered, reverse=True):
        if TEMPORARY.fullmatch(path.name):
            continue
        try:
            verify_folder(path)
        except HeadwayError as error:
            damaged[path] = error.what
        else:
            return path, damaged
    return None, damaged


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _is_inner(name: str) -> bool:
    """Whether a name is a plain relative path inside its folder, on any system."""
    parts = name.split("/")
    return "\0" not in name and "\\" not in name and not {"", ".", ".."} & set(parts)
