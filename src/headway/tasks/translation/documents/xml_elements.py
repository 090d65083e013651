"""Reads elements of an XML file one after the other, with the place of each part in the file.

The parser is expat. It fetches nothing: a document type such as `<!DOCTYPE tmx SYSTEM "tmx14.dtd">`
is accepted, and its file is never opened. A document that declares or uses an entity of its own is
refused, so that no text can expand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from headway.base.errors import DataError
from headway.data.formats.lines import LINE_LIMIT, location, read_raw_lines
from headway.tasks.translation.documents.segments import (
    LONGEST_LINE,
    Edit,
    TextFile,
    read_text_file,
)

DEEPEST = 60
MOST_NODES = 100_000
BLOCK = 2**16
_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_TAG = re.compile(r"""(?:[^>"']|"[^"]*"|'[^']*')*+>""")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(eq=False)
class Element:
    """An element. name: without its prefix. line: that of its first tag, from 1.

    start, end: the characters of the whole element in the file; inner_start, inner_end: those of
    its content, both equal to `end` for an empty element `<x/>`. All are 0 in a file that is read
    in blocks. translate: the attribute of this name, of the element or of the nearest one around it
    that has it; else "".
    """

    name: str
    prefix: str
    attributes: dict[str, str]
    line: int
    start: int = 0
    inner_start: int = 0
    inner_end: int = 0
    end: int = 0
    parts: list[Element | str] = field(default_factory=list)
    translate: str = ""

    def children(self, name: str) -> list[Element]:
        """Return the child elements of that name which have the prefix of this element."""
        return [
            part
            for part in self.parts
            if isinstance(part, Element) and (part.name, part.prefix) == (name, self.prefix)
        ]

    def tag(self, name: str) -> str:
        """Return the name of a tag with the prefix of this element."""
        return f"{self.prefix}:{name}" if self.prefix else name

    def text(self) -> str:
        """Return all text inside the element."""
        return "".join(p if isinstance(p, str) else p.text() for p in self.parts)


def read_xml(path: Path) -> TextFile:
    """Read a whole XML file. Raises DataError for one that is too large or wrongly encoded."""

    def declared(data: bytes) -> str:
        named = _ENCODING.match(data)
        return named[1].decode() if named else "utf-8"

    return read_text_file(path, declared)


def elements(
    file: Path | TextFile, root: str, units: Iterable[str] = (), contexts: Iterable[str] = ()
) -> Iterator[Element]:
    """Yield the elements of the names `units`, complete, and those of `contexts` as they begin.

    file: a path, plain or .gz, which is read in blocks; or a file in memory. root: the name that
    the first element must have. An element of `contexts` is empty when it is yielded. Elements
    inside a unit belong to it.

    Raises DataError with file and line for invalid XML, another root, an entity, more than 60
    levels, and a unit of more than 1 MiB of text.
    """
    if isinstance(file, TextFile):
        parser = expat.ParserCreate("utf-8")
        builder = _Builder(parser, file.path, root, units, contexts, file.content)
        blocks: Iterable[bytes] = [builder.utf8]
    else:
        parser = expat.ParserCreate()
        builder = _Builder(parser, file, root, units, contexts, None)
        blocks = _blocks(file)
    try:
        for block in blocks:
            parser.Parse(block, False)
            yield from builder.taken()
        parser.Parse(b"", True)
        yield from builder.taken()
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        line = parser.ErrorLineNumber if isinstance(error, expat.ExpatError) else builder.line
        reason = expat.ErrorString(error.code) if isinstance(error, expat.ExpatError) else error
        raise DataError(
            f"this is not valid XML: {reason}",
            location(builder.path, line),
            "correct the file; xmllint names all errors",
        ) from error


def _blocks(path: Path) -> Iterator[bytes]:
    for line in read_raw_lines(path, LONGEST_LINE):
        for start in range(0, len(line), BLOCK):
            yield line[start : start + BLOCK]


class _Builder:
    """Receives the events of the parser, and builds the elements that are wanted."""

    def __init__(
        self,
        parser: expat.XMLParserType,
        path: Path,
        root: str,
        units: Iterable[str],
        contexts: Iterable[str],
        content: str | None,
    ) -> None:
        self.path, self.root = path, root
        self.units, self.contexts = frozenset(units), frozenset(contexts)
        self.content = content
        self.done: list[Element] = []
        self.open: list[Element] = []
        self.translate = [""]  # of the elements that are open, outermost first
        self.depth = self.size = self.nodes = 0
        self.offsets = (0, 0)
        self.utf8 = b"" if content is None else content.encode()
        self.parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.EntityDeclHandler = self.refuse_entity
        parser.SkippedEntityHandler = self.refuse_skipped

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def taken(self) -> list[Element]:
        done, self.done = self.done, []
        return done

    def offset(self) -> int:
        """The character at which the present event begins; events come in order."""
        if self.content is None:
            return 0
        byte, character = self.offsets
        now = self.parser.CurrentByteIndex
        self.offsets = (now, character + len(self.utf8[byte:now].decode()))
        return self.offsets[1]

    def start(self, qualified: str, attributes: dict[str, str]) -> None:
        prefix, _, name = qualified.rpartition(":")
        self.depth += 1
        if self.depth == 1 and name != self.root:
            raise self.fault(
                f"the first element must be <{self.root}>, but is <{qualified[:40]}>",
                f"give a file in the format {self.root.upper()}",
            )
        if self.depth > DEEPEST:
            raise self.fault(f"elements are nested more than {DEEPEST} deep", "simplify the file")
        self.translate.append(attributes.get("translate", self.translate[-1]))
        if not self.open and name not in self.units | self.contexts:
            return
        element = Element(name, prefix, attributes, self.line, self.offset())
        element.translate = self.translate[-1]
        if self.content is not None:
            element.inner_start = tag_end(self.content, element.start)
        if not self.open and name in self.contexts:
            self.done.append(element)
            return
        self.grow(0)
        if self.open:
            self.open[-1].parts.append(element)
        self.open.append(element)

    def end(self, qualified: str) -> None:
        self.depth -= 1
        self.translate.pop()
        if not self.open:
            return
        element = self.open.pop()
        if self.content is not None:
            is_empty = self.content[element.inner_start - 2 : element.inner_start] == "/>"
            at = element.inner_start if is_empty else self.offset()
            element.inner_end = at
            element.end = at if is_empty else tag_end(self.content, at)
        if not self.open:
            self.size = self.nodes = 0
            self.done.append(element)

    def text(self, text: str) -> None:
        if self.open:
            self.grow(len(text))
            self.open[-1].parts.append(text)

    def grow(self, size: int) -> None:
        self.size += size
        self.nodes += 1
        if self.size > LINE_LIMIT or self.nodes > MOST_NODES:
            raise self.fault(
                f"<{self.open[0].name}> has more than {LINE_LIMIT:,} characters or {MOST_NODES:,} "
                "parts, the most allowed",
                "split it into several",
            )

    def refuse_entity(self, name: str, *_: object) -> None:
        raise self.fault(
            f"the file declares the entity {name[:40]!r}, and entities are not allowed",
            "remove <!ENTITY ...> and write the text itself",
        )

    def refuse_skipped(self, name: str, is_parameter: int) -> None:
        if not is_parameter:
            raise self.fault(
                f"the entity &{name[:40]}; is not one of XML", "write the character itself"
            )

    def fault(self, what: str, hint: str) -> DataError:
        return DataError(what, location(self.path, self.line), hint)


def tag_end(content: str, start: int) -> int:
    """Return the position after the tag that begins at `start`; ">" may stand in its attributes."""
    tag = _TAG.match(content, start)
    return tag.end() if tag else len(content)


def escaped(text: str) -> str:
    """Return a text as XML. Characters that XML cannot contain are left out."""
    text = _ILLEGAL.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute_edit(content: str, element: Element, values: dict[str, str]) -> Edit:
    """Return the edit that sets attributes in the first tag of an element."""
    tag = content[element.start : element.inner_start]
    for name, value in values.items():
        new = f'{name}="{escaped(value).replace(chr(34), "&quot;")}"'
        present = re.search(rf"""(?<=\s){re.escape(name)}\s*=\s*("[^"]*"|'[^']*')""", tag)
        if present:
            tag = tag[: present.start()] + new + tag[present.end() :]
        else:
            cut = len(tag) - (2 if tag.endswith("/>") else 1)
            tag = f"{tag[:cut].rstrip()} {new}{tag[cut:]}"
    return Edit(element.start, element.inner_start, tag)


def space_before(content: str, position: int) -> str:
    """Return the line break and indentation before a position, or ""."""
    match = re.compile(r"\r?\n[ \t]*\Z").search(content, max(0, position - 200), position)
    return match[0] if match else ""
