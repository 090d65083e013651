"""Plain text and SubRip subtitles, translated in place: every line break and number stays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.errors import DataError
from headway.data.formats.lines import location
from headway.tasks.translation.documents.segments import (
    Document,
    Edit,
    Segment,
    newline_of,
    read_text_file,
    with_newlines,
)
from headway.tasks.translation.pair_files import InlineTags

LETTER = re.compile(r"[^\W\d_]")
_TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d{1,3}\s+-->\s+\d+:\d\d:\d\d[,.]\d{1,3}")


def span_segment(content: str, start: int, end: int, number: int) -> Segment:
    """Return the segment of the text from `start` to `end` in line `number`.

    Its translation replaces it, on one line.
    """

    def write(translations: Sequence[str]) -> list[Edit]:
        return [Edit(start, end, " ".join(translations[0].split("\n")))]

    return Segment(texts=(content[start:end],), line=number, write=write)


def text_document(path: Path, source: str | None, target: str | None, tags: InlineTags) -> Document:
    """Open a plain text to translate every line with a letter; the other lines stay."""
    file = read_text_file(path)
    content = file.content
    segments = []
    for number, match in enumerate(re.finditer(r"[^\n]*\n?", with_newlines(content)), start=1):
        if LETTER.search(match[0]):
            end = match.start() + len(match[0].rstrip("\r\n"))
            segments.append(span_segment(content, match.start(), end, number))
    return Document(file=file, segments=tuple(segments), num_texts=len(segments))


def subtitle_document(
    path: Path, source: str | None, target: str | None, tags: InlineTags
) -> Document:
    """Open a SubRip file (.srt) to translate the text of every subtitle.

    The lines of a subtitle are translated together, unless they begin with a dash, which are the
    lines of different speakers; the translation has as many lines. Raises DataError with file and
    line for a subtitle without a number or without its times.
    """
    file = read_text_file(path)
    content = file.content
    segments: list[Segment] = []
    newline, text = newline_of(content), with_newlines(content)
    for number, start, lines in _cues(text):
        if not lines[0].strip().isdigit() or len(lines) < 2 or not _TIMES.match(lines[1]):
            raise DataError(
                "a subtitle must begin with a line with its number and a line with its times, "
                f"00:00:01,000 --> 00:00:02,000, but begins with {lines[0].strip()[:40]!r}",
                location(path, number),
                "separate subtitles by an empty line, and number them",
            )
        first = start + len(lines[0]) + len(lines[1])
        end = first + len("".join(lines[2:]).rstrip("\r\n"))
        if LETTER.search(text, first, end):
            segments += _subtitle(text, (first, end), number + 2, newline)
    return Document(file=file, segments=tuple(segments), num_texts=len(segments))


def _cues(content: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of the first line, the offset and the lines of each group of lines."""
    offset = 0
    lines: list[str] = []
    for number, line in enumerate(content.split("\n"), start=1):
        whole = f"{line}\n"
        if line.strip():
            lines.append(whole)
        elif lines:
            yield number - len(lines), offset - sum(map(len, lines)), lines
            lines = []
        offset += len(whole)
    if lines:
        first = content.count("\n") + 2 - len(lines)
        yield first, offset - sum(map(len, lines)), lines


def _subtitle(content: str, span: tuple[int, int], number: int, newline: str) -> list[Segment]:
    """Return the segments of the text of a subtitle, which begins in line `number`."""
    start, end = span
    lines = [line.strip() for line in content[start:end].split("\n")]
    if len(lines) == 1 or any(line.startswith(("-", "–", "—")) for line in lines):
        return _speakers(content, span, number)

    def write(translations: Sequence[str]) -> list[Edit]:
        return [Edit(start, end, newline.join(broken(translations[0], len(lines))))]

    return [Segment(texts=(" ".join(lines),), line=number, write=write)]


def _speakers(content: str, span: tuple[int, int], number: int) -> list[Segment]:
    """Return one segment for each line of a subtitle, without the dash at its beginning."""
    segments = []
    for count, match in enumerate(re.compile(r"[^\n]+").finditer(content, *span)):
        text = match[0].rstrip("\r")
        words = text.lstrip("-–— \t")
        if LETTER.search(words):
            first = match.start() + len(text) - len(words)
            segments.append(span_segment(content, first, match.start() + len(text), number + count))
    return segments


def broken(text: str, count: int) -> list[str]:
    """Return a text in at most `count` lines of similar length, broken between words."""
    words = text.split()
    lines: list[str] = []
    rest = len(" ".join(words))
    while words:
        left = count - len(lines)
        line = words.pop(0)
        while words and (left == 1 or len(line) + 1 + len(words[0]) / 2 <= rest / left):
            line += f" {words.pop(0)}"
        lines.append(line)
        rest -= len(line) + 1
    return lines
