r"""Streams the lines of a text file, plain or gzip, or of standard input.

A line ends only at "\n". Python's `splitlines` also splits at U+0085, U+2028, vertical tab, form
feed and a lone carriage return. A sentence may contain any of these, so `splitlines` could break
the alignment of two parallel files. The exception is a file of old Macintosh programs: if it has no
"\n", except perhaps at its end, its lines end at carriage returns.
"""

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import not_a_file
from headway.data.formats.file_kinds import CONTROL, HEAD, kind_of, kind_of_file

LINE_LIMIT = 2**20
# Highly repetitive text compresses 20-fold. A file beyond both limits is a gzip bomb or useless.
EXPANSION_LIMIT = 200
EXPANSION_FREE_BYTES = 256 * 2**20
_BOM = b"\xef\xbb\xbf"
_WIDE = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_UNMARKED = {  # Latin letters of a text without a byte-order mark
    "UTF-16LE": re.compile(rb"(?:[\t\r -~]\0){2}"),
    "UTF-16BE": re.compile(rb"(?:\0[\t\r -~]){2}"),
}
_RETURN = re.compile(rb"\r(?=[^\r\n])")  # in the middle of a line


def location(path: Path, line: int) -> str:
    """Return `path:line`, the form in which errors name a location; Parquet files have rows."""
    return f"{path}, row {line}" if path.suffix == ".parquet" else f"{path}:{line}"


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
        suffix, kind = ending(path), kind_of_file(path)
        seen = f"ends in {suffix}" if suffix else "has no suffix"
        raise UsageError(
            f"{content} are read from files that end in {known}, but this name {seen}"
            + (f", and the file is {kind.what}" if kind else ""),
            str(path),
            kind.advice.format(path.name) if kind else "convert or rename the file",
        )


def read_lines(path: Path, longest: int = LINE_LIMIT) -> Iterator[str]:
    r"""Yield the lines of `path` one at a time.

    The final "\n", one "\r" before it and a byte-order mark are removed. Only one line is held in
    memory. A final "\n" does not start another line. If a file has no "\n", except perhaps at its
    end, its lines end at "\r". Raises UsageError if the file does not exist; DataError (with file
    and line) for a file that is not a text, bytes that are not UTF-8, a line over `longest` bytes,
    a damaged gzip file, or one that expands more than 200-fold and beyond 256 MiB.
    """
    lines = read_raw_lines(path, longest, returns=True)
    yield from _decoded(lines, partial(location, path), path.name)


def read_raw_lines(
    path: Path, longest: int = LINE_LIMIT, *, returns: bool = False
) -> Iterator[bytes]:
    r"""Yield the lines of `path` as bytes, each with its line end; nothing is removed.

    returns: whether the lines of a file without "\n" end at "\r". Raises what `read_lines` raises,
    except for bytes that are not UTF-8.
    """
    if not path.is_file():
        raise UsageError(not_a_file(path), where=str(path), hint="check the path")
    where = partial(location, path)
    number = 0
    try:
        with _opened(path) as stream:
            kind = kind_of(stream.peek(HEAD)[:HEAD])
            if kind is not None:
                raise (kind_of_file(path) or kind).refused(str(path), path.name)
            lines = _raw_lines(stream.readline, where, longest, returns=returns)
            for raw in _bounded(lines, path):
                number += 1
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        if path.suffix == ".gz" and not _is_gzip(path):
            fault = "the name ends in .gz, but the file is not compressed by gzip"
            raise DataError(fault, str(path), f"rename it to {path.stem}") from error
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
        yield from _decoded(_raw_lines(readline, where, longest, returns=True), where, "FILE")
    except OSError as error:
        fault = f"the stream cannot be read: {error.strerror or error}"
        raise DataError(fault, where=name) from error


def _line_of(name: str, number: int) -> str:
    return f"{name}, line {number}"


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _opened(path: Path) -> io.BufferedReader:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), buffer_size=2**16)
    return path.open("rb")


def _raw_lines(
    readline: Callable[[int], bytes],
    where: Callable[[int], str],
    longest: int,
    *,
    returns: bool,
) -> Iterator[bytes]:
    for number, raw in enumerate(_split(readline, longest + 1, returns=returns), start=1):
        if len(raw) > longest:
            raise DataError(
                f"the line is longer than {longest:,} bytes, the most allowed",
                where=where(number),
                hint="split it into several lines",
            )
        yield raw


def _split(readline: Callable[[int], bytes], size: int, *, returns: bool) -> Iterator[bytes]:
    """Yield the lines of a stream, or the first `size` bytes of a longer line.

    returns: whether carriage returns end the lines if nothing else does. This is known after the
    second line, which is read early only if the first one has carriage returns.
    """
    raw = readline(size)
    if returns and _RETURN.search(raw):
        following = readline(size)
        if not following or len(raw) == size:
            yield from _split_at_returns(raw + following, readline, size)
            return
        yield raw
        raw = following
    while raw:
        yield raw
        raw = readline(size)


def _split_at_returns(
    buffer: bytes, readline: Callable[[int], bytes], size: int
) -> Iterator[bytes]:
    """Yield the lines of `buffer` and then of the stream, which end at carriage returns."""
    while buffer:
        following = readline(size)
        *lines, last = buffer.splitlines(keepends=True)
        yield from lines
        if not following or len(last) >= size:
            yield last
            last = b""
        buffer = last + following


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
            _check_start(raw, where(1), file_name)
            raw = raw.removeprefix(_BOM)
        try:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            western = raw.decode("cp1252", "replace").strip()[:40]
            raise DataError(
                f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8",
                where(number),
                "the line has control characters, so it is not a text: give a text file"
                if CONTROL.search(raw)
                else f"convert it; if {western!r} is correct, the text is in WINDOWS-1252: "
                f"iconv -f WINDOWS-1252 -t UTF-8 {file_name}",
            ) from error


def _check_start(raw: bytes, where: str, file_name: str) -> None:
    """Raise DataError if a text begins as one in UTF-16 or UTF-32, or as no text.

    raw: its first line, up to the first byte of a line feed.
    """
    kind = kind_of(raw[:HEAD])
    if kind is not None:
        raise kind.refused(where, file_name)
    marked = next((name for mark, name in _WIDE if raw.startswith(mark)), None)
    encoding = marked or next((name for name, text in _UNMARKED.items() if text.match(raw)), None)
    if encoding is not None:
        raise DataError(
            f"the text is {encoding}, not UTF-8",
            where,
            f"convert it: iconv -f {encoding} -t UTF-8 {file_name}, or save it as UTF-8",
        )
