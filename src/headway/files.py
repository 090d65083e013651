"""Durable writes of single files, capped readers, locks. No torch: light to import."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeGuard

from headway.errors import DataError, HeadwayError, UsageError

JSON_LIMIT = 16 * 2**20
LONGEST_NAME = 255  # bytes of a file's name, on all common file systems
TEMPORARY = re.compile(r".+\.tmp-[0-9a-f]{12}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# What the system says when the place, not the caller, is the reason that nothing can be written.
NO_ROOM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
}


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `data`, durably: a reader sees the old bytes or the new ones.

    Pieces are written as they come, so that a large file need not stand whole in memory.
    HeadwayError says which place is full, read-only or missing.
    """
    temporary = temporary_path(path)
    try:
        with temporary.open("xb") as file:
            for piece in [data] if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        flush_folder(path.parent)
    except BaseException as error:
        remove_unfinished(temporary)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def json_bytes(facts: Any) -> bytes:
    """The contents of a JSON file: indented, UTF-8, with a newline at its end."""
    return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()


def are_distinct_names(value: Any) -> TypeGuard[list[str]]:
    """Whether a value of a JSON file is a list of different strings."""
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def check_name(name: str, where: str) -> None:
    """UsageError if file systems cannot hold a file or folder of this name; `where` names it."""
    size = len(os.fsencode(name))
    if size > LONGEST_NAME:
        raise UsageError(
            f"a name of {size} bytes; file systems allow {LONGEST_NAME}", where, "a shorter name"
        )


def check_new(path: Path) -> None:
    """UsageError if something is there already, as nothing is ever overwritten, or if the name is
    too long."""
    check_name(path.name, str(path))
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already", hint="choose another name, or remove it first")


def check_new_file(path: Path) -> None:
    """`check_new` for a file that is written at the end of some work: HeadwayError now if its
    folder is missing or cannot be written to."""
    check_new(path)
    folder = path.parent
    code = None
    if not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EACCES
    if code is not None:
        raise cannot_write(path, OSError(code, os.strerror(code)))


def make_folder(path: Path) -> None:
    """A folder to write into, made unless it is there. UsageError names it where it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder: {error.strerror or error}"
        raise UsageError(why, str(path), "--out FOLDER") from error


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file, refused before reading when it is larger than `limit` bytes."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise DataError(f"{size:,} bytes, more than the {limit:,} allowed here", str(path))
            data = file.read(size + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(f"cannot be read: {why}", str(path)) from error
    # A device has no size and never ends, and neither does a file that something still writes.
    if len(data) != size:
        raise DataError("no plain file, or it is changing while it is read", str(path))
    return data


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """A JSON file of at most `limit` bytes; DataError names the file. See `parse_json`."""
    return parse_json(read_bytes(path, limit), str(path))


def parse_json(data: bytes, where: str) -> Any:
    """Strict JSON: no duplicate keys, no NaN or infinity, no half characters, no endless nesting.

    Each of these means different things to different readers. DataError names `where`.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return result

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise ValueError(f"{digits} is too large for a number")
        return number

    hooks: dict[str, Any] = {"parse_constant": refuse, "parse_float": finite}
    try:
        value = json.loads(data.decode(), object_pairs_hook=unique, **hooks)
        if rb"\u" in data and (lone := _SURROGATE.search(json.dumps(value, ensure_ascii=False))):
            raise ValueError(f"a lone surrogate (\\u{ord(lone[0]):04x}), half of a character")
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", where) from error
    return value


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold `folder` alone; a second process is refused at once. A dead holder's lock is gone."""
    descriptor = _open_lock(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise UsageError(
                f"{folder} is in use by process {holder or 'unknown'}",
                hint="wait for it or stop it; or give this run another name with --run",
            ) from None
        except OSError as error:
            raise cannot_write(folder / ".lock", error) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise cannot_write(folder / ".lock", error) from error
        yield
    finally:
        os.close(descriptor)  # and with it the lock, as at the end of the process


def _open_lock(folder: Path) -> int:
    """A link is refused: what it points to would be emptied."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(folder / ".lock", flags, 0o644)
    except OSError as error:
        raise cannot_write(folder / ".lock", error) from error


def remove_unfinished(temporary: Path) -> None:
    """Remove what was begun; the error that led here matters more than one of removing."""
    if os.path.isdir(temporary):  # unlike Path.is_dir, False too where the name is too long
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Beside `path`, and with a name that is not too long if that of `path` is not."""
    ending = f".tmp-{uuid.uuid4().hex[:12]}"
    name = path.name
    if len(os.fsencode(name)) <= LONGEST_NAME:
        while len(os.fsencode(name)) + len(ending) > LONGEST_NAME:
            name = name[:-1]
    return path.with_name(name + ending)


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable, not only the contents of its files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> HeadwayError:
    """The error for a path that the operating system does not let us write, with what to do."""
    return HeadwayError(
        f"cannot write: {error.strerror or error}", str(path), advice(path, error.errno)
    )


def cannot_open(path: Path, error: OSError) -> HeadwayError:
    """What the operating system said about a path, as an error with the way to fix it."""
    return HeadwayError(str(error.strerror or error), str(path), advice(path, error.errno))


def advice(path: Path, code: int | None) -> str:
    """How to fix what the operating system refused for `path`. code: its errno."""
    existing = next(p for p in (path, *path.parents) if os.path.exists(p) or p == p.parent)
    if code in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(existing).free
        return f"{free:,} bytes are free there; free some space or choose another path"
    if code == errno.ENOENT and existing != path.parent:
        return f"{path.parent} is missing: make that folder (mkdir -p), or check the path"
    if code == errno.ENOTDIR:
        return f"{existing} is a file, not a folder: choose another path"
    if code == errno.EISDIR:
        return "this is a folder: name a file inside it"
    if code == errno.ENAMETOOLONG:
        return f"a shorter name: file systems allow {LONGEST_NAME} bytes"
    if code in (errno.EACCES, errno.EPERM):
        return f"no permission for {existing}: choose another path, or change its owner or mode"
    if code == errno.EROFS:
        return "the file system is read-only there: choose another path"
    return "check the path, or choose another"
