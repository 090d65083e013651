"""Texts of TMX and XLIFF with tags inside: as plain text for a model, and back.

A tag inside a text is one of two kinds. A pair such as `<g id="1">...</g>` surrounds text that is
translated; a single one such as `<ph>%s</ph>` or `<x id="1"/>` represents code of the original
file. A model reads the code itself if the tag contains it, or else a short form of the tag.
"""

import re
from dataclasses import dataclass

from headway.tasks.translation.documents.xml_elements import Element, escaped
from headway.tasks.translation.pair_files import InlineTags

_SURROUNDING = {"g", "pc", "hi", "mrk"}
_NAMES = ("id", "i", "x", "rid", "mid")
_SHOWN = ("equiv-text", "equiv", "disp")


@dataclass(frozen=True)
class InlineTag:
    """A tag inside a text. shown: what stands for it in the plain text; markup: it in the file."""

    shown: str
    markup: str


@dataclass(frozen=True)
class InlineText:
    """The plain text of an element, with the tags that are shown in it, in order."""

    text: str
    tags: tuple[InlineTag, ...]

    @property
    def protected(self) -> tuple[str, ...]:
        """The tags as they are shown, each of which a translation must contain."""
        return tuple(tag.shown for tag in self.tags)

    def markup(self, translation: str) -> str:
        """Return a translation as XML: its text escaped, and each shown tag as it is in the file.

        The n-th occurrence of a shown tag becomes the n-th tag of that form.
        """
        waiting: dict[str, list[str]] = {}
        for tag in self.tags:
            waiting.setdefault(tag.shown, []).append(tag.markup)
        longest_first = sorted(waiting, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        parts: list[str] = []
        end = 0
        for match in pattern.finditer(translation):
            if waiting[match[0]]:
                parts += [escaped(translation[end : match.start()]), waiting[match[0]].pop(0)]
                end = match.end()
        return "".join([*parts, escaped(translation[end:])])


def inline_text(element: Element, mode: InlineTags, content: str = "") -> InlineText:
    """Return the text of an element, with its tags or without them.

    mode: "keep" or "drop"; the text between a pair is part of the text in both, and the code inside
    a single tag only with "keep". content: the file that contains the element, for the markup.
    """
    pieces = _pieces(element, content, protects=mode == "keep")
    plain = "".join(piece for piece in pieces if isinstance(piece, str))
    if mode == "drop":
        return InlineText(plain, ())
    tags: list[InlineTag] = []
    text: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            text.append(piece)
            continue
        if piece.shown in plain:  # the text itself contains this string
            piece = InlineTag(f"<x{len(tags) + 1}/>", piece.markup)
        tags.append(piece)
        text.append(piece.shown)
    return InlineText("".join(text), tuple(tags))


def is_untranslated(target: Element | None, source: Element) -> bool:
    """Return whether a text lacks its translation: there is none, or it has only spaces and tags.

    A source that has only tags itself has such a translation.
    """
    if target is None or not target.parts:
        return True
    translation, original = (inline_text(side, "drop").text.strip() for side in (target, source))
    return not translation and (bool(original) or not inline_text(target, "keep").text.strip())


def _pieces(element: Element, content: str, *, protects: bool) -> list[str | InlineTag]:
    """Return the texts and tags of an element. protects: whether what is marked as not to be
    translated is a tag as a whole."""
    pieces: list[str | InlineTag] = []
    for part in element.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif part.name in _SURROUNDING and part.parts and not (protects and _is_protected(part)):
            opening = content[part.start : part.inner_start]
            pieces.append(InlineTag(_short(part, ">"), opening))
            pieces += _pieces(part, content, protects=protects)
            closing = content[part.inner_end : part.end]
            pieces.append(InlineTag(f"</{part.name}>", closing))
        else:
            code = _code(part) or _short(part, "/>")
            pieces.append(InlineTag(code, content[part.start : part.end]))
    return pieces


def _is_protected(element: Element) -> bool:
    """Return whether the text of an element must stay: in XLIFF 1.2 by mtype, in 2 by translate."""
    attributes = element.attributes
    return attributes.get("mtype") == "protected" or attributes.get("translate") == "no"


def _code(element: Element) -> str:
    """Return the code of the original file that a tag contains or states, or ""."""
    values = (element.attributes.get(name, "") for name in _SHOWN)
    return element.text().strip() or next((value for value in values if value.strip()), "")


def _short(element: Element, end: str) -> str:
    name = next((name for name in _NAMES if name in element.attributes), None)
    attribute = f' {name}="{element.attributes[name]}"' if name else ""
    return f"<{element.name}{attribute}{end}"
