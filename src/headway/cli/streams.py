"""Pipes as arguments, which can be read once: `<(zcat x.gz)`, a named pipe, /dev/stdin.

Commands read their files several times, so a pipe is first written to a temporary file; a run keeps
a copy in its folder.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from headway.base.config_files import RUN_FILE
from headway.base.errors import UsageError
from headway.base.folders import INPUT
from headway.base.settings import Configuration, flat, override
from headway.terminal.console import say

C = TypeVar("C", bound=Configuration)

_DESCRIPTOR = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")
_WRITTEN = {"-o", "--output", "--plot", "--html", "--confusion"}  # flags of new files
_OUTPUTS = (1, 2)  # descriptors of standard output and standard error
_BLOCK = 2**20
_files: dict[str, Path] = {}
"""The temporary files of this call, by name, which is the hash of the content."""


@contextmanager
def files_of_streams(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the arguments with temporary files in the place of pipes, while the files exist."""
    arguments: list[str] = []
    read: dict[str, str] = {}
    with ExitStack() as stack:
        stack.callback(_files.clear)
        for before, word in zip(["", *words], words, strict=False):
            flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
            is_known = value in read or bool({before, flag} & _WRITTEN)
            stream = None if is_known else _opened(value)
            if stream is not None:
                made = tempfile.TemporaryDirectory(prefix="headway-")
                with stream:
                    read[value] = str(_written(stream, value, Path(stack.enter_context(made))))
            arguments.append(f"{flag}{equals}{read.get(value, value)}")
        yield arguments


def is_stream_file(argument: str) -> bool:
    """Whether an argument is the temporary file of a pipe."""
    return _files.get(Path(argument).name) == Path(argument)


def named_like(argument: str, output: Path) -> Path:
    """The path of a file; the file of a pipe gets the suffix of the output, if that differs."""
    path = Path(argument)
    if not is_stream_file(argument) or path.suffix == output.suffix:
        return path
    return path.rename(path.with_suffix(output.suffix))


@contextmanager
def copied(settings: C, folder: Path) -> Iterator[C]:
    """Copy the files of pipes into a run folder, and yield its settings with the paths of copies.

    At the end, the copies that no run names are removed.
    """
    copies = {name: folder / INPUT / name for name in _files}
    for name, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists():
            shutil.copyfile(_files[name], copy)
    try:
        yield override(settings, _changes(settings, copies), "a pipe") if copies else settings
    finally:
        run = folder / RUN_FILE
        text = run.read_text(encoding="utf-8") if copies and run.is_file() else ""
        for name, copy in copies.items():
            if name not in text:
                copy.unlink(missing_ok=True)
        for emptied in (folder / INPUT, folder) if copies else ():
            with suppress(OSError):
                emptied.rmdir()


def _changes(settings: Configuration, copies: Mapping[str, Path]) -> dict[str, object]:
    """The settings that name files of pipes, with the paths of their copies."""

    def of_copy(value: object) -> object:
        return str(copies.get(Path(value).name, value)) if isinstance(value, str) else value

    changes: dict[str, object] = {}
    for name, value in flat(settings).items():
        changed = tuple(map(of_copy, value)) if isinstance(value, tuple) else of_copy(value)
        if changed != value:
            changes[name] = changed
    return changes


def _opened(path: str) -> BinaryIO | None:
    """Open a pipe, or a file that is open already (/dev/stdin, /dev/fd/3); None for other paths."""
    descriptor = _DESCRIPTOR.fullmatch(path)
    try:
        if descriptor:
            number = int(descriptor[1] or 0)
            if number in _OUTPUTS or stat.S_ISDIR(os.fstat(number).st_mode):
                return None
            return os.fdopen(os.dup(number), "rb")
        return open(path, "rb") if stat.S_ISFIFO(os.stat(path).st_mode) else None
    except (OSError, ValueError):  # no such path; a text that is too long or has a zero
        return None


def _written(stream: BinaryIO, path: str, folder: Path) -> Path:
    """Write a pipe to a file in the folder, whose name is the hash and the kind of its content."""
    from headway.data.formats.suffixes import HEAD, suffix_of  # only for a call with a pipe

    digest, head = hashlib.sha256(), b""
    temporary = folder / "part"
    try:
        with temporary.open("xb") as file:
            while block := stream.read(_BLOCK):
                digest.update(block)
                head += block[: HEAD - len(head)]
                file.write(block)
    except OSError as error:
        raise UsageError(
            f"the pipe cannot be read: {error.strerror or error}",
            path,
            "write its contents to a file, and name that file",
        ) from error
    name = digest.hexdigest()[:16] + suffix_of(head)
    size = temporary.stat().st_size
    say(f"read      {path}: {size:,} bytes, as {name}")
    _files[name] = temporary.rename(folder / name)
    return _files[name]
