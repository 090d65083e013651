"""Plain text and SubRip subtitles, translated in place: every line break and number stays."""

import re
from collections.abc import Iterator

from headway.base.errors import DataError
from headway.data.formats.lines import location
from headway.tasks.translation.documents.segments import (
    LETTER,
    Segment,
    TextFile,
    newline_of,
    replaced,
    with_newlines,
)
from headway.tasks.translation.pair_files import InlineTags

_TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d{1,3}\s+-->\s+\d+:\d\d:\d\d[,.]\d{1,3}")


def text_segments(file: TextFile, tags: InlineTags) -> Iterator[Segment]:
    """Yield every line of a plain text that has a letter; the other lines stay."""
    for number, match in enumerate(re.finditer(r"[^\n]*\n?", with_newlines(file.content)), start=1):
        if LETTER.search(match[0]):
            text = match[0].rstrip("\r\n")
            yield replaced(match.start(), match.start() + len(text), text, number)


def subtitle_segments(file: TextFile, tags: InlineTags) -> Iterator[Segment]:
    """Yield the text of every subtitle of a SubRip file (.srt).

    The lines of a subtitle are translated together, unless they begin with a dash, which are the
    lines of different speakers; the translation has as many lines. Raises DataError with file and
    line for a subtitle without a number or without its times.
    """
    newline, text = newline_of(file.content), with_newlines(file.content)
    for number, start, lines in _cues(text):
        if not lines[0].strip().isdigit() or len(lines) < 2 or not _TIMES.match(lines[1]):
            raise DataError(
                "a subtitle must begin with a line with its number and a line with its times, "
                f"00:00:01,000 --> 00:00:02,000, but begins with {lines[0].strip()[:40]!r}",
                location(file.path, number),
                "separate subtitles by an empty line, and number them",
            )
        first = start + len(lines[0]) + len(lines[1])
        end = first + len("".join(lines[2:]).rstrip("\r\n"))
        if LETTER.search(text, first, end):
            yield from _subtitle(text, first, end, number + 2, newline)


def _cues(content: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of the first line, the offset and the lines of each group of lines."""
    offset = 0
    lines: list[str] = []
    for number, line in enumerate([*content.split("\n"), ""], start=1):
        whole = f"{line}\n"
        if line.strip():
            lines.append(whole)
        elif lines:
            yield number - len(lines), offset - sum(map(len, lines)), lines
            lines = []
        offset += len(whole)


def _subtitle(content: str, start: int, end: int, number: int, newline: str) -> Iterator[Segment]:
    """Yield the segments of the text of a subtitle, which begins in line `number`."""
    lines = [line.strip() for line in content[start:end].split("\n")]
    if len(lines) > 1 and not any(line.startswith(("-", "–", "—")) for line in lines):
        yield replaced(
            start, end, " ".join(lines), number, lambda text: newline.join(broken(text, len(lines)))
        )
        return
    for count, match in enumerate(re.compile(r"[^\n]+").finditer(content, start, end)):
        text = match[0].rstrip("\r")
        words = text.lstrip("-–— \t")
        if LETTER.search(words):
            last = match.start() + len(text)
            yield replaced(last - len(words), last, words, number + count)


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
