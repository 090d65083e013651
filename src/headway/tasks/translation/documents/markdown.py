"""Markdown translated in place: paragraphs, headings, list items, quotes and cells of tables.

Code, links, HTML, front matter and every sign of the structure stay. A paragraph of several lines
is translated as a whole and becomes one line.

The parser of markdown-it-py, which rich installs, is not used: its tokens have the lines of a
block, but not the columns of a text or of a table's cell, so the signs before a text would have to
be found again here to replace it in place; front matter, footnotes and task lists are in another
package.
"""

import re
from dataclasses import dataclass, field

from headway.tasks.translation.documents.segments import (
    LETTER,
    Segment,
    TextFile,
    replaced,
    with_newlines,
)
from headway.tasks.translation.pair_files import InlineTags

_PREFIX = re.compile(
    r"[ \t]*(?P<quote>(?:>[ \t]?)*)[ \t]*"
    r"(?P<marker>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)*(?:#{1,6}[ \t]+)?"
    r"(?:\[\^[^\]\s]{1,80}\]:[ \t]*)?)"
)
_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})")
_RULE = re.compile(r"[ \t>]*(?:[-*_=][ \t]*){2,}$|[ \t>]*=+[ \t]*$")
_REFERENCE = re.compile(r"[ \t]{0,3}\[[^\]^]{1,300}\]:[ \t]*\S")
_HTML = re.compile(r"[ \t]{0,3}<(?:[/!?]|[A-Za-z][\w-]*[\s>/])")
_CELL = re.compile(r"(?:[^|\\]|\\.)+")
_PROTECTED = re.compile(
    r"``[^\n]{1,500}?``|`[^`\n]{1,500}`|<https?://[^<>\s]{1,500}>|https?://[^\s)>\]]{1,500}"
    r"|!?\[(?=[^\[\]]{0,300}\](?:\(|\[))"
    r"|\]\([^()\n]{0,500}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)|\]\[[^\[\]\n]{0,100}\]"
    r"|\[\^[^\[\]\s]{1,80}\]|\*{1,3}|~~|(?<!\w)_{1,2}(?=\S)|(?<=\S)_{1,2}(?!\w)|\\[^\w\s]"
)


@dataclass
class _Paragraph:
    """The lines of a paragraph: their text, without the signs before it."""

    start: int
    number: int
    end: int = 0
    lines: list[str] = field(default_factory=list)


def markdown_segments(file: TextFile, tags: InlineTags) -> list[Segment]:
    """Return the texts of a Markdown file."""
    return _Reader().read(with_newlines(file.content))


class _Reader:
    """Collects the paragraphs of a file, line by line."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.paragraph: _Paragraph | None = None
        self.fence = ""
        self.skip_to_blank = False
        self.in_list = False

    def read(self, content: str) -> list[Segment]:
        lines = content.split("\n")
        offset = first = 0
        if lines[0].strip() in ("---", "+++"):
            ends = [n for n in range(1, len(lines)) if lines[n].strip() == lines[0].strip()]
            first = ends[0] + 1 if ends else 0
            offset = sum(len(line) + 1 for line in lines[:first])
        for number in range(first, len(lines)):
            self._line(lines[number], offset, number + 1)
            offset += len(lines[number]) + 1
        self._finish()
        return self.segments

    def _line(self, raw: str, offset: int, number: int) -> None:
        line = raw.rstrip("\r")
        if self._is_skipped(line):
            self._finish()
            return
        prefix = _PREFIX.match(line)
        start = prefix.end() if prefix else 0
        marker = prefix["marker"] if prefix else ""
        if marker or self.paragraph is None:
            self._finish()
            self.in_list = self.in_list or (bool(marker) and not marker.startswith("#"))
        if "|" in line and (line.strip().startswith("|") or line.count("|") > 1):
            self._finish()
            self._cells(line, start, offset, number)
            return
        if self.paragraph is None:
            self.paragraph = _Paragraph(offset + start, number)
        text = line[start:].rstrip()
        is_broken = line.endswith("  ") or text.endswith("\\")
        self.paragraph.lines.append(text.removesuffix("\\"))
        self.paragraph.end = offset + start + len(self.paragraph.lines[-1])
        if is_broken or "#" in marker:
            self._finish()

    def _is_skipped(self, line: str) -> bool:
        """Return whether a line has no text to translate: code, HTML, a rule, or nothing."""
        fence = _FENCE.match(line)
        if self.fence:
            if fence and fence[1].startswith(self.fence) and not line[fence.end() :].strip("`~ "):
                self.fence = ""
            return True
        if self.paragraph is None and line[:1].strip():
            self.in_list = False
        if fence:
            self.fence = fence[1]
            return True
        if not line.strip(" \t>"):
            self.skip_to_blank = False
            return True
        if self.skip_to_blank or (_HTML.match(line) and self.paragraph is None):
            self.skip_to_blank = True
            return True
        is_indented = line.startswith(("    ", "\t"))
        if is_indented and self.paragraph is None and not self.in_list:
            return True
        is_separator = "-" in line and not line.strip(" \t>|:-")
        return is_separator or any(sign.match(line) for sign in (_RULE, _REFERENCE))

    def _cells(self, line: str, start: int, offset: int, number: int) -> None:
        for cell in _CELL.finditer(line, start):
            text = cell[0].strip()
            if LETTER.search(text):
                first = offset + cell.start() + len(cell[0]) - len(cell[0].lstrip())
                self._add(text, first, first + len(text), number)

    def _finish(self) -> None:
        paragraph, self.paragraph = self.paragraph, None
        if paragraph is not None:
            text = " ".join(paragraph.lines)
            if LETTER.search(text):
                self._add(text, paragraph.start, paragraph.end, paragraph.number)

    def _add(self, text: str, start: int, end: int, number: int) -> None:
        protected = tuple(match[0] for match in _PROTECTED.finditer(text))
        self.segments.append(
            replaced(start, end, text, number, lambda text: " ".join(text.split()), protected)
        )
