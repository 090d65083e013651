"""Durable writes, manifests, capped readers. No torch: light to import.

The save protocol: everything goes into `NAME.tmp-ID/` and is flushed to disk, `MANIFEST.json` with
size and sha256 of each file goes last, then one rename makes it appear as `NAME/`. Whatever kills
the process and whenever, there is the old state or the new, never half of one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.errors import DataError, HeadwayError, UsageError

MANIFEST = "MANIFEST.json"
JSON_LIMIT = 16 * 2**20
VERSION = 1
LONGEST_NAME = 255  # bytes of a file's name, on all common file systems
_TEMPORARY = re.compile(r".+\.tmp-[0-9a-f]{12}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# What the system says when the place, not the caller, is the reason that nothing can be written.
_NO_ROOM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
}


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `data`, durably: a reader sees the old bytes or the new ones.

    Pieces are written as they come, so that a large file need not stand whole in memory.
    HeadwayError says which place is full, read-only or missing.
    """
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            for piece in [data] if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except BaseException as error:
        _forget(temporary)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


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
        raise _cannot_write(path, OSError(code, os.strerror(code)))


def make_folder(path: Path) -> None:
    """A folder to write into, made unless it is there. UsageError names it where it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder: {error.strerror or error}"
        raise UsageError(why, str(path), "--out FOLDER") from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path`, complete and durable, when the block ends well.

    Nothing is ever overwritten: `path` must not exist. On an error nothing is left behind.
    Only plain files may be put there: a link could name something outside. HeadwayError.
    """
    check_new(path)
    temporary = _temporary(path)
    ours = True
    try:
        temporary.mkdir(parents=True)
        ours = False
        yield temporary
        ours = True
        _seal(temporary)
        os.rename(temporary, path)
        _flush_folder(path.parent)
    except BaseException as error:
        _forget(temporary)
        # What else goes wrong in the block is the caller's, reading another file say.
        if isinstance(error, OSError) and (ours or error.errno in _NO_ROOM):
            raise _cannot_write(path, error) from error
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
    temporary = _temporary(path)
    try:
        temporary.mkdir()
        yield temporary
        new = _seal(temporary)
        previous = {name: _entry(path / name) for name in new if (path / name).is_file()}
        _write_manifest(path, new, previous)
        for name in new:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary / name, path / name)
            _flush_folder((path / name).parent)
        _write_manifest(path, new)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        _forget(temporary)


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
        _flush_folder(inner)
    _flush_folder(folder)
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
    """Remove what a killed write left behind; only names of this protocol. Returns them.

    Call it while holding the folder's lock: another process may be writing there right now.
    """
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
            raise _cannot_write(folder / ".lock", error) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise _cannot_write(folder / ".lock", error) from error
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
        raise _cannot_write(folder / ".lock", error) from error


def _is_inner(name: str) -> bool:
    """A plain relative name that stays inside its folder, on any system."""
    parts = name.split("/")
    return "\0" not in name and "\\" not in name and not {"", ".", ".."} & set(parts)


def _forget(temporary: Path) -> None:
    """Remove what was begun; the error that led here matters more than one of removing."""
    if os.path.isdir(temporary):  # unlike Path.is_dir, False too where the name is too long
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """Beside `path`, and with a name that is not too long if that of `path` is not."""
    ending = f".tmp-{uuid.uuid4().hex[:12]}"
    name = path.name
    if len(os.fsencode(name)) <= LONGEST_NAME:
        while len(os.fsencode(name)) + len(ending) > LONGEST_NAME:
            name = name[:-1]
    return path.with_name(name + ending)


def _flush_folder(path: Path) -> None:
    """Make the names in a folder durable, not only the contents of its files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> HeadwayError:
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
