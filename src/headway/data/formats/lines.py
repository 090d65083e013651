r"""Lines of a text file, plain or gzip, or of standard input, as a stream.

A line ends at "\n" and nowhere else. Python's `splitlines` also cuts at U+0085, U+2028, vertical
tab, form feed and a lone carriage return, any of which may stand inside a sentence: two aligned
files read so would slip out of step.
"""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from headway.errors import DataError, UsageError

LINE_LIMIT = 2**20
# Text that repeats itself a lot shrinks 20-fold. Beyond both limits a file is a gzip bomb, or
# useless.
EXPANSION_LIMIT = 200
EXPANSION_FREE_BYTES = 256 * 2**20
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def place(path: Path, line: int) -> str:
    """`path:line`, the way errors say where."""
    return f"{path}:{line}"


def ending(path: Path) -> str:
    """What a file's name says that it is, ".gz" aside, in small letters: ".tsv"."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def check_file(path: Path, endings: Sequence[str], things: str) -> None:
    """UsageError unless the file is there and has one of the endings. things: what stands in it."""
    known = f"{', '.join(endings)} (or the same with .gz)"
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(what, str(path), f"a file that ends in {known}")
    if ending(path) not in endings:
        raise UsageError(f"{ending(path) or 'no ending'}: {things} stand in {known}", str(path))


def read_lines(path: Path, longest: int = LINE_LIMIT) -> Iterator[str]:
    r"""Yield the lines of `path`, without "\n" and one "\r" before it, and without a byte-order
    mark.

    Memory holds one line. A file that ends in "\n" has no further line after it. Raises UsageError
    when there is no such file; DataError (with file and line) for bytes that are not UTF-8, a line
    over `longest` bytes, a damaged gzip file, or one that expands more than 200-fold and beyond
    256 MiB.
    """
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(what, where=str(path), hint="check the path")
    where = partial(place, path)
    number = 0
    try:
        with _opened(path) as stream:
            raw_lines = _bounded(_raw_lines(stream.readline, where, longest), path)
            for line in _decoded(raw_lines, where, path.name):
                number += 1
                yield line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"the gzip file is damaged: {error}",
            where=where(number + 1),
            hint="copy or download it again",
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def read_stream(
    readline: Callable[[int], bytes], name: str, longest: int = LINE_LIMIT
) -> Iterator[str]:
    """Yield the lines of an open stream as `read_lines` yields those of a file, one at a time as
    they arrive. readline: that of the binary stream. name: of the stream, in errors, which are
    those of `read_lines`."""
    try:
        where = partial(_line_of, name)
        yield from _decoded(_raw_lines(readline, where, longest), where, "FILE")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", where=name) from error


def _line_of(name: str, number: int) -> str:
    return f"{name}, line {number}"


def _opened(path: Path) -> io.BufferedReader:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), buffer_size=2**16)
    return path.open("rb")


def _raw_lines(
    readline: Callable[[int], bytes], where: Callable[[int], str], longest: int
) -> Iterator[bytes]:
    number = 0
    while raw := readline(longest + 1):
        number += 1
        if len(raw) > longest:
            raise DataError(
                f"the line is longer than {longest:,} bytes",
                where=where(number),
                hint="split it into lines",
            )
        yield raw


def _bounded(raw_lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The lines of a file that is not much larger unpacked than it is on disk."""
    size = os.stat(path).st_size
    allowed = max(EXPANSION_FREE_BYTES, EXPANSION_LIMIT * size)
    total = 0
    for number, raw in enumerate(raw_lines, start=1):
        total += len(raw)
        if total > allowed:
            raise DataError(
                f"{size:,} bytes expand to more than {allowed:,}: a gzip bomb?",
                where=place(path, number),
                hint="if the file is right, unpack it yourself and give the unpacked file",
            )
        yield raw


def _decoded(
    raw_lines: Iterator[bytes], where: Callable[[int], str], file_name: str
) -> Iterator[str]:
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            if raw.startswith(_UTF16):
                raise DataError(
                    "the text is UTF-16, not UTF-8",
                    where=where(1),
                    hint=f"convert it: iconv -f UTF-16 -t UTF-8 {file_name}",
                )
            raw = raw.removeprefix(_BOM)
        try:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8",
                where=where(number),
                hint=f"convert it, perhaps: iconv -f WINDOWS-1252 -t UTF-8 {file_name}",
            ) from error
