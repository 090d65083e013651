"""HTML translated in place: the text of every paragraph, heading, cell ..., with its inline tags.

Scripts, styles, preformatted text, code and elements with `translate="no"` stay as they are, and so
do attributes.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.base.errors import DataError
from headway.data.formats.lines import location
from headway.tasks.translation.documents.inline_tags import InlineTag, InlineText
from headway.tasks.translation.documents.segments import (
    LETTER,
    Segment,
    TextFile,
    on_one_line,
    replaced,
)
from headway.tasks.translation.documents.xml_elements import tag_end
from headway.tasks.translation.pair_files import InlineTags

_INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del"),
        *("dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp"),
        *("small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)
_OPAQUE = frozenset(
    ("script", "style", "textarea", "pre", "code", "kbd", "samp", "var", "svg", "math", "template")
)
_EMPTY = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)")
_UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b""", re.IGNORECASE)


@dataclass(frozen=True)
class _Token:
    """A part of the file. name: of a tag, in lower case, with "/" before it if it closes."""

    kind: Literal["text", "inline", "block"]
    start: int
    end: int
    name: str = ""


def html_segments(file: TextFile, tags: InlineTags) -> Iterator[Segment]:
    """Yield the texts of an HTML file.

    Inline tags such as `<b>` are part of a text, and are kept or dropped. Raises DataError with
    file and line for a tag, a comment or a script that is not closed.
    """
    content = file.content
    run: list[_Token] = []
    counted, number = 0, 1
    for token in [*_tokens(file), _Token("block", len(content), len(content))]:
        if token.kind != "block":
            run.append(token)
            continue
        run = _trimmed(run, content)
        if any(t.kind == "text" and LETTER.search(_text(content, t)) for t in run):
            number += content.count("\n", counted, run[0].start)
            counted = run[0].start
            yield _segment(content, run, number, tags)
        run = []


def _tokens(file: TextFile) -> Iterator[_Token]:
    content = file.content
    position = start = 0
    while (position := content.find("<", position)) >= 0:
        end, kind, name = _markup(file, position)
        if end == position:  # "<" as text
            position += 1
            continue
        if start < position:
            yield _Token("text", start, position)
        yield _Token(kind, position, end, name)
        position = start = end
    if start < len(content):
        yield _Token("text", start, len(content))


def _markup(file: TextFile, start: int) -> tuple[int, Literal["inline", "block"], str]:
    """Return the end, the kind and the name of the markup at `start`; `start` for a mere "<"."""
    content = file.content

    def unclosed(what: str) -> DataError:
        line = content.count("\n", 0, start) + 1
        return DataError(
            f"{what} is not closed", location(file.path, line), "close it; write a mere < as &lt;"
        )

    if content.startswith("<!--", start):
        end = content.find("-->", start + 4)
        if end < 0:
            raise unclosed("the comment")
        return end + 3, "inline", "!"
    tag = _TAG.match(content, start)
    if tag is None:
        if content[start + 1 : start + 2] not in ("!", "?"):
            return start, "inline", ""
        end = content.find(">", start)
        if end < 0:
            raise unclosed("the declaration")
        return end + 1, "block", "!"
    end = tag_end(content, start)
    name = tag[2].lower()
    if content[end - 1] != ">":
        raise unclosed(f"the tag <{tag[1]}{name[:20]}")
    kind: Literal["inline", "block"] = "inline" if name in _INLINE else "block"
    opening = content[start:end]
    is_alone = name in _EMPTY or opening.endswith("/>")
    if not tag[1] and not is_alone and (name in _OPAQUE or _UNTRANSLATED.search(opening)):
        inner_end = _closing(content, name, end)
        if inner_end is None:
            raise unclosed(f"<{name}>")
        return inner_end, kind, "!"
    return end, kind, tag[1] + name + ("/" if is_alone else "")


def _closing(content: str, name: str, position: int) -> int | None:
    """Return the position after the end tag of an element whose content begins at `position`."""
    depth = 1
    is_raw = name in ("script", "style", "textarea")
    for tag in re.compile(rf"<(/?){re.escape(name)}\b", re.IGNORECASE).finditer(content, position):
        end = content.find(">", tag.end())
        if end < 0:
            return None
        depth += -1 if tag[1] else (0 if is_raw or content[end - 1] == "/" else 1)
        if depth == 0:
            return end + 1
    return None


def _trimmed(run: list[_Token], content: str) -> list[_Token]:
    """Return a run without blank texts, lone tags, or a pair of tags around all of it."""

    def is_blank(token: _Token) -> bool:
        if token.kind == "text":
            return not content[token.start : token.end].strip()
        return token.name in ("!", "br/", "img/", "wbr/")

    while run:
        if is_blank(run[0]):
            run = run[1:]
        elif is_blank(run[-1]):
            run = run[:-1]
        elif _surrounds(run):
            run = run[1:-1]
        else:
            break
    return run


def _surrounds(run: Sequence[_Token]) -> bool:
    """Return whether the first tag of a run is closed by its last one."""
    first, last = run[0], run[-1]
    if first.kind != "inline" or not first.name or last.name != f"/{first.name}":
        return False
    depth = 0
    for number, token in enumerate(run):
        depth += (token.name == first.name) - (token.name == last.name)
        if depth == 0:
            return number == len(run) - 1
    return False


def _text(content: str, token: _Token) -> str:
    """Return a text without references such as `&amp;`, and with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(content[token.start : token.end]))


def _segment(content: str, run: list[_Token], number: int, mode: InlineTags) -> Segment:
    tags: list[InlineTag] = []
    parts: list[str] = []
    for token in run:
        raw = content[token.start : token.end]
        if token.kind == "text":
            parts.append(_text(content, token))
        elif mode == "keep" or token.name == "!":
            shown = re.sub(r"\s+", " ", raw)
            tags.append(InlineTag(shown, raw))
            parts.append(shown)
    whole = "".join(parts)
    text = InlineText(whole.strip(), tuple(tags))
    first = content[run[0].start : run[0].end]
    last = content[run[-1].start : run[-1].end]
    start = run[0].start + (len(first) - len(first.lstrip()) if run[0].kind == "text" else 0)
    end = run[-1].end - (len(last) - len(last.rstrip()) if run[-1].kind == "text" else 0)
    return replaced(
        start,
        end,
        text.text,
        number,
        lambda translation: text.markup(on_one_line(translation)),
        text.protected,
    )
