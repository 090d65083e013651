"""Durable writes of single files, readers with a size limit, and locks. Does not import torch."""

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from headway.base.errors import DataError, HeadwayError, UsageError

JSON_LIMIT = 16 * 2**20
LONGEST_NAME = 255  # bytes of a file's name, on all common file systems
TEMPORARY = re.compile(r".+\.tmp-[0-9a-f]{12}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Error numbers of the system for which the disk or folder, not the caller, is the cause.
DISK_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
}


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace the contents of `path` durably and atomically.

    A reader gets either the old or the new contents. Data in several parts is written part by part,
    so that a large file need not fit in memory. What killed processes left beside it is removed.
    HeadwayError names the path if the write fails.
    """
    temporary = temporary_path(path)
    try:
        with suppress(OSError):
            remove_unfinished_files(path.parent)
        with _new_file(path) as file:
            temporary = Path(file.name)
            for part in [data] if isinstance(data, bytes) else data:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        flush_folder(path.parent)
    except BaseException as error:
        remove_unfinished(temporary)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def _new_file(path: Path) -> BinaryIO:
    """Make a temporary file beside `path`, and lock it until it is closed."""
    while True:
        file = temporary_path(path).open("xb")
        if is_locked_by_us(file.fileno(), Path(file.name)):
            return file
        file.close()


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def json_bytes(value: object) -> bytes:
    """The contents of a JSON file: indented, UTF-8, with a newline at its end."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def is_count(value: object, least: int = 0) -> TypeGuard[int]:
    """Whether a value of a JSON file is a whole number of at least `least`."""
    return type(value) is int and value >= least


def are_distinct_names(value: object) -> TypeGuard[list[str]]:
    """Whether a value of a JSON file is a list of different strings."""
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def is_printable(character: str) -> bool:
    """Whether a character of a name is neither a control character nor a line break."""
    return unicodedata.category(character) not in {"Cc", "Zl", "Zp"}


def check_name(name: str, where: str) -> None:
    """UsageError if a file or folder cannot have this name, or no list can show it on one line.

    where: what has this name.
    """
    if not all(map(is_printable, name)):
        raise UsageError(
            f"the name {name!r} has line breaks or control characters",
            where,
            "choose a name of one line",
        )
    size = len(os.fsencode(name))
    if size > LONGEST_NAME:
        raise UsageError(
            f"the name has {size} bytes, but file systems allow at most {LONGEST_NAME}",
            where,
            "choose a shorter name",
        )


def check_new(path: Path) -> None:
    """UsageError if the path exists, since nothing is overwritten, or if its name is too long."""
    check_name(path.name, str(path))
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already", hint="choose another name, or remove it first")


def check_new_file(path: Path) -> None:
    """Check the path of a new file before the work whose result it will contain.

    UsageError as in `check_new`, and if its folder is missing; HeadwayError if that is not
    writable.
    """
    check_new(path)
    folder = path.parent
    if not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        missing = cannot_write(path, OSError(code, os.strerror(code)))
        raise UsageError(missing.what, missing.where, missing.hint)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise cannot_write(path, OSError(errno.EACCES, os.strerror(errno.EACCES)))


def make_folder(path: Path) -> None:
    """Make a folder and its parents if they do not exist. UsageError if that fails."""
    try:
        make_durable_folder(path)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder: {error.strerror or error}",
            str(path),
            "choose another folder with --output",
        ) from error


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file for reading. DataError for a pipe, socket or device; else what `open` does.

    A named pipe without a writer would be opened, and then read, for ever.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 (closed by the caller)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        hint = "write its contents to a file, and name that file"
        raise DataError("not a plain file: this is a pipe, a socket or a device", str(path), hint)
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def check_plain(path: Path) -> None:
    """Check a file that a library opens by its name, which may wait. Raises as `open_plain`."""
    open_plain(path).close()


def not_a_file(path: Path) -> str:
    """What a path is that is not one of a file, for an error message."""
    if path.is_dir():
        return "this is a folder, not a file"
    return "this is a pipe, socket or device, not a file" if path.exists() else "no such file"


def read_bytes(path: Path, limit: int) -> bytes:
    """Read a whole file. DataError if it has more than `limit` bytes or cannot be read."""
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise DataError(
                    f"the file has {size:,} bytes; at most {limit:,} are allowed", str(path)
                )
            data = file.read(size + 1)
    except OSError as error:
        reason = error.strerror or error
        hint = "check the path and its permissions"
        raise DataError(f"the file cannot be read: {reason}", str(path), hint) from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"the file cannot be read: {error}", str(path)) from error
    if len(data) != size:
        raise DataError("the file has no fixed size, or it changed while it was read", str(path))
    return data


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON file of at most `limit` bytes, by the rules of `parse_json`."""
    return parse_json(read_bytes(path, limit), str(path))


def parse_json(data: bytes, where: str, *, only_finite: bool = True) -> Any:
    """Parse strict JSON: no duplicate keys, NaN, infinity, lone surrogates or endless nesting.

    JSON parsers disagree on the meaning of each of these. only_finite: refuse numbers that are not
    finite; if False, they are read as float, for data in which some values are not used. DataError
    names `where`.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("an object has a key twice")
        return result

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise ValueError(f"{digits} is too large for a 64-bit floating-point number")
        return number

    hooks: dict[str, Any] = {"parse_constant": refuse, "parse_float": finite} if only_finite else {}
    try:
        value = json.loads(data.decode(), object_pairs_hook=unique, **hooks)
        if rb"\u" in data and (lone := _SURROGATE.search(json.dumps(value, ensure_ascii=False))):
            raise ValueError(f"lone surrogate \\u{ord(lone[0]):04x}, which is not a character")
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", where) from error
    return value


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock `folder` for this process. UsageError if another process holds the lock.

    The lock of a process that has ended is released by the system.
    """
    descriptor = _open_lock(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise UsageError(
                f"{folder} is in use by process {holder or 'unknown'}",
                hint="wait for that process or stop it, or choose another name with --run",
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
        os.close(descriptor)  # releases the lock


def _open_lock(folder: Path) -> int:
    """Open the lock file. HeadwayError for a link, whose target would be truncated."""
    try:
        make_durable_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(folder / ".lock", flags, 0o644)
    except OSError as error:
        raise cannot_write(folder / ".lock", error) from error


def is_locked_by_us(descriptor: int, temporary: Path) -> bool:
    """Lock a temporary file or folder, so that no process removes it.

    False if another process is removing it, or has removed it since it was made.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nothing is removed
        return True
    return os.path.lexists(temporary)


def remove_unfinished_files(parent: Path) -> list[Path]:
    """Remove the temporary files and folders of processes that have ended, and return their paths.

    Those of a running process are locked, and stay.
    """
    candidates = [path for path in parent.iterdir() if TEMPORARY.fullmatch(path.name)]
    return [path for path in candidates if _is_removed(path)]


def _is_removed(temporary: Path) -> bool:
    """Remove a temporary file or folder, unless a process has locked it."""
    if temporary.is_symlink():
        temporary.unlink()
        return True
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        remove_unfinished(temporary)
        return not os.path.lexists(temporary)
    finally:
        os.close(descriptor)


def remove_unfinished(temporary: Path) -> None:
    """Remove an unfinished file or folder; errors of removing it are ignored."""
    if os.path.isdir(temporary):  # unlike Path.is_dir, False too where the name is too long
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """A temporary path in the folder of `path`; its name is not longer than file systems allow."""
    ending = f".tmp-{uuid.uuid4().hex[:12]}"
    name = path.name
    if len(os.fsencode(name)) <= LONGEST_NAME:
        while len(os.fsencode(name)) + len(ending) > LONGEST_NAME:
            name = name[:-1]
    return path.with_name(name + ending)


def flush_folder(path: Path) -> None:
    """Flush a folder to disk, so that the names of its files are durable too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_durable_folder(path: Path) -> None:
    """Make a folder and its missing parents, whose names are on disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        flush_folder(folder.parent)


def cannot_write(path: Path, error: OSError) -> HeadwayError:
    """The error for a failed write of the operating system, with how to fix it."""
    return HeadwayError(
        f"cannot write: {error.strerror or error}", str(path), advice(path, error.errno)
    )


def cannot_open(path: Path, error: OSError) -> HeadwayError:
    """The error for a failed access of the operating system, with how to fix it."""
    return HeadwayError(str(error.strerror or error), str(path), advice(path, error.errno))


def advice(path: Path, code: int | None) -> str:
    """How to fix an error of the operating system for `path`. code: its errno."""
    existing = next(p for p in (path, *path.parents) if os.path.exists(p) or p == p.parent)
    if code in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(existing).free
        return f"{free:,} bytes are free on this disk; free some space, or choose another path"
    if code == errno.ENOENT and existing != path.parent:
        return f"{path.parent} does not exist: make that folder (mkdir -p), or check the path"
    if code == errno.ENOTDIR:
        return f"{existing} is a file, not a folder: choose another path"
    if code == errno.EISDIR:
        return "the path is a folder: name a file"
    if code == errno.ENAMETOOLONG:
        return f"choose a shorter name: file systems allow {LONGEST_NAME} bytes"
    if code in (errno.EACCES, errno.EPERM):
        return f"no permission for {existing}: choose another path, or change its owner or mode"
    if code == errno.EROFS:
        return "the file system is read-only: choose another path"
    return "check the path, or choose another one"
