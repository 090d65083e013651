"""Durable writes, manifests, capped readers. No torch: light to import.

The save protocol: everything goes into `NAME.tmp-ID/` and is flushed to disk, `MANIFEST.json` with
size and sha256 of each file goes last, then one rename makes it appear as `NAME/`. Whatever kills
the process and whenever, there is the old state or the new, never half of one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from headway.errors import DataError, HeadwayError, UsageError

MANIFEST = "MANIFEST.json"
JSON_LIMIT = 16 * 2**20
_TEMPORARY = re.compile(r".+\.tmp-[0-9a-f]{12}")


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, durably: a reader sees the old bytes or the new ones."""
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path`, complete and durable, when the block ends well.

    Nothing is ever overwritten: `path` must not exist. On an error nothing is left behind.
    """
    if path.exists():
        raise UsageError(f"{path} exists already", hint="choose another name, or remove it first")
    temporary = _temporary(path)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _seal(temporary)
        temporary.rename(path)
        _flush_folder(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _cannot_write(path, error) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _seal(folder: Path) -> None:
    """Flush every file, and write the manifest last."""
    listed = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        name = file.relative_to(folder).as_posix()
        listed[name] = {"size": file.stat().st_size, "sha256": digest}
    write_file(folder / MANIFEST, json.dumps({"version": 1, "files": listed}, indent=1).encode())
    for inner in [p for p in folder.rglob("*") if p.is_dir()]:
        _flush_folder(inner)
    _flush_folder(folder)


def verify_folder(path: Path) -> None:
    """Check every file against the manifest; DataError names the first that differs."""
    manifest = read_json(path / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise DataError("the manifest lists no files", str(path / MANIFEST))
    for name, facts in files.items():
        if not _is_inner(name) or not isinstance(facts, dict):
            raise DataError(f"the manifest lists the odd name {name!r}", str(path / MANIFEST))
        file = path / name
        if file.is_symlink() or not file.is_file():
            raise DataError("a file that the manifest lists is missing", str(file))
        if file.stat().st_size != facts.get("size"):
            raise DataError(
                f"{file.stat().st_size} bytes, the manifest says {facts.get('size')}", str(file)
            )
        with file.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != facts.get("sha256"):
            raise DataError("the content differs from the manifest's sha256", str(file))


def newest_verified(parent: Path, pattern: str) -> tuple[Path | None, list[str]]:
    """The folder with the highest number in its name that verifies, and why others did not."""
    numbered = [(int(digits[-1]), p) for p in parent.glob(pattern) if (digits := _numbers(p.name))]
    skipped = []
    for _, path in sorted(numbered, reverse=True):
        if _TEMPORARY.fullmatch(path.name):
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
    """Remove what a killed write left behind; only names of this protocol."""
    left = [p for p in parent.iterdir() if _TEMPORARY.fullmatch(p.name)]
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return left


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file, refused before reading when it is larger than `limit` bytes."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise DataError(f"{size:,} bytes, more than the {limit:,} allowed here", str(path))
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", str(path)) from error


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """Strict JSON: no duplicate keys, no NaN, no endless nesting."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return result

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    data = read_bytes(path, limit)
    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", str(path)) from error


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold `folder` alone; a second process is refused at once. A dead holder's lock is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UsageError(
                f"{folder} is in use by process {holder}",
                hint="wait for it or stop it; or give this run another name with --run",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _is_inner(name: str) -> bool:
    """A relative name that stays inside its folder."""
    pure = PurePosixPath(name)
    return bool(name) and not pure.is_absolute() and ".." not in pure.parts and "\0" not in name


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:12]}")


def _flush_folder(path: Path) -> None:
    """Make the names in a folder durable, not only the contents of its files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> HeadwayError:
    place = next(p for p in (path, *path.parents) if p.exists() or p == p.parent)
    free = shutil.disk_usage(place).free
    return HeadwayError(
        f"cannot write: {error.strerror or error}",
        str(path),
        f"{free:,} bytes are free there; free some space or choose another place",
    )
