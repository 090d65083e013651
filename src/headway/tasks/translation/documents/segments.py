"""A file that is translated in place: its untranslated texts, and the edits that fill them in.

Everything outside an edit is written as it was read, byte for byte.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.formats.lines import location, read_raw_lines

LETTER = re.compile(r"[^\W\d_]")
"""Only a text with a letter is translated."""

LONGEST_LINE = 16 * 2**20
DOCUMENT_LIMIT = 64 * 2**20
MOST_LINES = 2_000_000
_NO_CHARSETS = ("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7")
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


@dataclass(frozen=True)
class Edit:
    """Replaces the characters of a file from `start` to `end` (exclusive) by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Segment:
    """An untranslated part of a file that is filled in as a whole.

    texts: its texts; a message with plurals has two. line: its line in the file, from 1. write: the
    edits that fill in one translation for each text. protected: the tags inside the texts, each of
    which a translation must contain exactly as often.
    """

    texts: tuple[str, ...]
    line: int
    write: Callable[[Sequence[str]], list[Edit]]
    protected: tuple[str, ...] = ()


def on_one_line(text: str) -> str:
    """Return a text with spaces instead of its line breaks."""
    return " ".join(text.split("\n"))


def replaced(
    start: int,
    end: int,
    text: str,
    line: int,
    write: Callable[[str], str] = on_one_line,
    protected: tuple[str, ...] = (),
) -> Segment:
    """Return the segment of a text whose translation replaces the characters from `start` to `end`.

    write: returns the characters for a translation. line, protected: as in `Segment`.
    """
    return Segment(
        texts=(text,),
        line=line,
        write=lambda translations: [Edit(start, end, write(translations[0]))],
        protected=protected,
    )


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A whole text file in memory. content: its decoded text. prefix: its byte-order mark."""

    path: Path
    content: str
    encoding: str
    prefix: bytes


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file with its untranslated texts, in order.

    num_texts: the number of all its texts, translated ones included. mark: how a machine
    translation is marked, for a message; "" if the format has no mark. extra: edits that accompany
    any translation. language: the language of the translations, if the file states it.
    """

    file: TextFile
    segments: tuple[Segment, ...]
    num_texts: int
    mark: str = ""
    extra: tuple[Edit, ...] = ()
    language: str | None = None

    def filled(self, translations: Sequence[Sequence[str] | None]) -> bytes:
        """Return the file with the translations of each segment; None leaves a segment as it is.

        Raises DataError if the encoding of the file cannot represent a translation.
        """
        edits: list[Edit] = []
        for segment, translation in zip(self.segments, translations, strict=True):
            if translation is not None:
                new = segment.write(translation)
                self._check_encoding(new, segment.line)
                edits += new
        text = edited(self.file.content, [*self.extra, *edits] if edits else [])
        return self.file.prefix + text.encode(self.file.encoding)

    def _check_encoding(self, edits: Iterable[Edit], line: int) -> None:
        for edit in edits:
            try:
                edit.text.encode(self.file.encoding)
            except UnicodeEncodeError as error:
                character = error.object[error.start]
                raise DataError(
                    f"the encoding of the file, {self.file.encoding}, cannot represent "
                    f"{character!r} of the translation",
                    location(self.file.path, line),
                    "convert the file to UTF-8 first (for a PO file: msgconv -t UTF-8)",
                ) from error


def edited(content: str, edits: Iterable[Edit]) -> str:
    """Return `content` with the edits, which must not overlap."""
    parts: list[str] = []
    end = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        assert end <= edit.start <= edit.end, "overlapping edits"
        parts += [content[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, content[end:]])


def read_whole(path: Path, *, plain: bool = False) -> bytes:
    """Return the bytes of a file, plain or .gz, of at most 64 MiB, with lines of at most 16 MiB.

    plain: refuse .gz. Raises UsageError if the file does not exist; DataError, with file and line,
    for a longer line or file, or a damaged .gz file.
    """
    if plain and path.suffix == ".gz":
        raise UsageError(
            "a compressed file cannot be translated in place", str(path), f"gunzip {path.name}"
        )
    lines: list[bytes] = []
    size = 0
    for number, line in enumerate(read_raw_lines(path, LONGEST_LINE), start=1):
        size += len(line)
        if size > DOCUMENT_LIMIT or number > MOST_LINES:
            raise DataError(
                f"the file has more than {DOCUMENT_LIMIT:,} bytes or {MOST_LINES:,} lines, the "
                "most allowed",
                location(path, number),
                "split it into several files",
            )
        lines.append(line)
    return b"".join(lines)


def read_text_file(
    path: Path, declared: Callable[[bytes], str] = lambda data: "utf-8", *, plain: bool = True
) -> TextFile:
    """Read a whole text file in the encoding of its byte-order mark, or else the declared one.

    declared: returns the encoding that the bytes of the file declare. plain: refuse .gz. Raises
    DataError with file and line for other bytes, and what `read_whole` raises.
    """
    data = read_whole(path, plain=plain)
    prefix, marked = next((mark for mark in _MARKS if data.startswith(mark[0])), (b"", ""))
    data = data.removeprefix(prefix)
    encoding = marked or declared(data)
    return TextFile(
        path=path, content=decoded(path, data, encoding), encoding=encoding, prefix=prefix
    )


def decoded(path: Path, data: bytes, encoding: str) -> str:
    """Decode a file, and check that encoding the text gives the same bytes.

    Raises DataError with file and line for other bytes, for a NUL character, and for an encoding
    that Python does not know.
    """
    hint = f"convert it to UTF-8, for example: iconv -f WINDOWS-1252 -t UTF-8 {path.name}"
    encoding = known_encoding(encoding, location(path, 1))
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        byte = f"byte 0x{data[start]:02x}" if data else "the text"
        raise DataError(f"{byte} is not {encoding}", location(path, line), hint) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        fault = "the file contains a NUL character, so it is not a text"
        raise DataError(fault, location(path, line), "remove it, or give the correct file")
    if text.encode(encoding) != data:
        fault = f"the text in {encoding} cannot be written back byte for byte"
        raise DataError(fault, location(path, 1), hint)
    return text


def known_encoding(name: str, where: str) -> str:
    """Return the name of a character encoding. Raises DataError if Python does not know it."""
    try:
        encoding = codecs.lookup(name).name
        if "a\n".encode(encoding, "strict") and encoding not in _NO_CHARSETS:
            return encoding
    except (LookupError, UnicodeError):
        pass
    raise DataError(
        f"the encoding {name[:40]!r} is not known",
        where,
        "convert the file to UTF-8 (for a PO file: msgconv -t UTF-8)",
    )


def newline_of(content: str) -> str:
    r"""Return the line break of a text: "\r\n" if its first line ends with it; "\r" if no line ends
    with "\n", except perhaps the last; else "\n"."""
    if _ends_at_returns(content):
        return "\r"
    first = re.search(r"\r?\n", content)
    return first[0] if first else "\n"


def with_newlines(content: str) -> str:
    r"""Return a text of old Macintosh programs, whose lines end at "\r", with "\n" in their place;
    any other text unchanged. Every character keeps its position."""
    return content.replace("\r", "\n") if _ends_at_returns(content) else content


def _ends_at_returns(content: str) -> bool:
    is_one_line = "\n" not in content.removesuffix("\n").removesuffix("\r")
    return is_one_line and re.search(r"\r[^\r\n]", content) is not None
