r"""Streams the lines of a text file, plain or gzip, or of standard input.

A line ends only at "\n". Python's `splitlines` also splits at U+0085, U+2028, vertical tab, form
feed and a lone carriage return. A sentence may contain any of these, so `splitlines` could break
the alignment of two parallel files.
"""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from headway.errors import DataError, UsageError
from headway.files import not_a_file

LINE_LIMIT = 2**20
# Highly repetitive text compresses 20-fold. A file beyond both limits is a gzip bomb or useless.
EXPANSION_LIMIT = 200
EXPANSION_FREE_BYTES = 256 * 2**20
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def location(path: Path, line: int) -> str:
    """Return `path:line`, the form in which errors name a location."""
    return f"{path}:{line}"


def ending(path: Path) -> str:
    """Return the lower-case suffix of a file name, such as ".tsv"; a final ".gz" is ignored."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def check_file(path: Path, endings: Sequence[str], content: str) -> None:
    """Check that a file exists and has one of the suffixes `endings`; raise UsageError otherwise.

    content: what such a file contains, as a plural noun for the error.
    """
    known = f"{', '.join(endings)} (or the same with .gz)"
    if not path.is_file():
        hint = f"give the path of a file that ends in {known}"
        raise UsageError(not_a_file(path), str(path), hint)
    if ending(path) not in endings:
        suffix = ending(path)
        raise UsageError(
            f"{content} are read from files that end in {known}, "
            f"but this name {f'ends in {suffix}' if suffix else 'has no suffix'}",
            str(path),
            "convert or rename the file",
        )


def read_lines(path: Path, longest: int = LINE_LIMIT) -> Iterator[str]:
    r"""Yield the lines of `path` one at a time.

    The final "\n", one "\r" before it and a byte-order mark are removed. Only one line is held in
    memory. A final "\n" does not start another line. Raises UsageError if the file does not exist;
    DataError (with file and line) for bytes that are not UTF-8, a line over `longest` bytes, a
    damaged gzip file, or one that expands more than 200-fold and beyond 256 MiB.
    """
    yield from _decoded(read_raw_lines(path, longest), partial(location, path), path.name)


def read_raw_lines(path: Path, longest: int = LINE_LIMIT) -> Iterator[bytes]:
    r"""Yield the lines of `path` as bytes, each with its final "\n"; nothing is removed.

    Raises what `read_lines` raises, except for bytes that are not UTF-8.
    """
    if not path.is_file():
        raise UsageError(not_a_file(path), where=str(path), hint="check the path")
    where = partial(location, path)
    number = 0
    try:
        with _opened(path) as stream:
            for raw in _bounded(_raw_lines(stream.readline, where, longest), path):
                number += 1
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"the gzip file is damaged: {error}",
            where=where(number + 1),
            hint="copy or download it again",
        ) from error
    except OSError as error:
        fault = f"the file cannot be read: {error.strerror or error}"
        raise DataError(fault, where=str(path)) from error


def read_stream(
    readline: Callable[[int], bytes], name: str, longest: int = LINE_LIMIT
) -> Iterator[str]:
    """Yield the lines of an open stream, one at a time as they arrive.

    readline: the method of the binary stream that reads at most a given number of bytes. name: the
    name of the stream in errors. Lines and errors are as in `read_lines`.
    """
    try:
        where = partial(_line_of, name)
        yield from _decoded(_raw_lines(readline, where, longest), where, "FILE")
    except OSError as error:
        fault = f"the stream cannot be read: {error.strerror or error}"
        raise DataError(fault, where=name) from error


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
                f"the line is longer than {longest:,} bytes, the most allowed",
                where=where(number),
                hint="split it into several lines",
            )
        yield raw


def _bounded(raw_lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines, and stop with DataError if the file expands far beyond its size on disk."""
    size = os.stat(path).st_size
    allowed = max(EXPANSION_FREE_BYTES, EXPANSION_LIMIT * size)
    total = 0
    for number, raw in enumerate(raw_lines, start=1):
        total += len(raw)
        if total > allowed:
            raise DataError(
                f"a compressed file of {size:,} bytes may expand to at most {allowed:,} bytes, "
                "but this one expands further (a gzip bomb?)",
                where=location(path, number),
                hint="if the file is correct, decompress it and give the decompressed file",
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
                hint=f"convert it, for example: iconv -f WINDOWS-1252 -t UTF-8 {file_name}",
            ) from error
