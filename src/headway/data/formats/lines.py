r"""Lines of a text file, plain or gzip, as a stream.

A line ends at "\n" and nowhere else. Python's `splitlines` also cuts at U+0085, U+2028, vertical
tab, form feed and a lone carriage return, any of which may stand inside a sentence: two aligned
files read so would slip out of step.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
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
    number = 0
    try:
        with _opened(path) as stream:
            for number, raw in enumerate(_raw_lines(stream, path, longest), start=1):
                yield _decoded(raw, path, number)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"the gzip file is damaged: {error}",
            where=place(path, number + 1),
            hint="copy or download it again",
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def _opened(path: Path) -> io.BufferedReader:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), buffer_size=2**16)
    return path.open("rb")


def _raw_lines(stream: io.BufferedReader, path: Path, longest: int) -> Iterator[bytes]:
    size = os.stat(path).st_size
    allowed = max(EXPANSION_FREE_BYTES, EXPANSION_LIMIT * size)
    total = number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        total += len(raw)
        if len(raw) > longest:
            raise DataError(
                f"the line is longer than {longest:,} bytes",
                where=place(path, number),
                hint="split it into lines",
            )
        if total > allowed:
            raise DataError(
                f"{size:,} bytes expand to more than {allowed:,}: a gzip bomb?",
                where=place(path, number),
                hint="if the file is right, unpack it yourself and give the unpacked file",
            )
        yield raw


def _decoded(raw: bytes, path: Path, number: int) -> str:
    if number == 1:
        if raw.startswith(_UTF16):
            raise DataError(
                "the file is UTF-16, not UTF-8",
                where=place(path, 1),
                hint=f"convert it: iconv -f UTF-16 -t UTF-8 {path.name}",
            )
        raw = raw.removeprefix(_BOM)
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8",
            where=place(path, number),
            hint=f"convert the file, perhaps: iconv -f WINDOWS-1252 -t UTF-8 {path.name}",
        ) from error
