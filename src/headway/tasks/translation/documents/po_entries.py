"""Reads the entries of a PO file (GNU gettext) with the lines where each part of them is.

Source of the syntax: the manual of GNU gettext, section "The Format of PO Files".
"""

import gettext
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headway.base.errors import DataError
from headway.data.formats.lines import LINE_LIMIT, location
from headway.tasks.translation.documents.segments import TextFile, newline_of, read_text_file

MOST_FORMS = 20
MOST_STRINGS = 10_000
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr|domain)(?:\[(\d{1,9})\])?")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"(?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]+))+|\\(?P<letter>.)", re.DOTALL)
_SIMPLE = dict(zip('ntbrfva\\"', '\n\t\b\r\f\v\a\\"', strict=True))
_FIELDS = {"msgctxt": "context", "msgid": "source", "msgid_plural": "plural"}
"""Name of a keyword -> the field of `Entry` with its strings."""

_CHARSET = re.compile(rb"charset=([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_PLURALS = re.compile(r"nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\n]+)")


@dataclass
class Entry:
    """One message.

    forms: its translations, one for each plural form. flags: the words after `#,`. msgid: the line
    of `msgid`, from 1. start: the character of the file at which the line of `msgctxt` or `msgid`
    begins, or that of a comment with the previous message before it. flags_start: the character
    after the first `#,`, or None. forms_start, forms_end: the characters of its translations, with
    their keywords.
    """

    context: str | None = None
    source: str | None = None
    plural: str | None = None
    forms: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    msgid: int = 0
    start: int | None = None
    flags_start: int | None = None
    forms_start: int = 0
    forms_end: int = 0

    @property
    def is_header(self) -> bool:
        """Whether this is the header: the message with an empty text and no context."""
        return self.source == "" and self.context is None

    @property
    def is_translated(self) -> bool:
        """Whether the message has every translation and is not fuzzy."""
        return "fuzzy" not in self.flags and bool(self.forms) and all(self.forms)

    @property
    def is_empty(self) -> bool:
        """Whether the message has no translation at all."""
        return not any(self.forms)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """A PO file: its text, its entries without obsolete ones, and what its header states.

    language: the language of the translations. num_forms, form_of: the number of plural forms and
    the function from a number to its form; None and the rule of English if it is not stated.
    """

    file: TextFile
    entries: tuple[Entry, ...]
    language: str | None
    num_forms: int | None
    form_of: Callable[[int], int]


def _charset(data: bytes) -> str:
    """Return the encoding in the header of a PO file."""
    charset = _CHARSET.search(data[:LINE_LIMIT])
    named = charset[1].decode() if charset else "UTF-8"
    return "UTF-8" if named.upper() in ("CHARSET", "ASCII", "US-ASCII") else named


def read_catalogue(path: Path, *, plain: bool = False) -> Catalogue:
    """Read a PO file (.po, .pot), plain or .gz unless `plain`.

    Raises DataError with file and line for a syntax error, an invalid escape, a message that occurs
    twice, a wrong number of plural forms, and bytes that are not in the encoding of the header.
    """
    file = read_text_file(path, _charset, plain=plain)
    if newline_of(file.content) == "\r":
        raise DataError(
            "the lines end at carriage returns only",
            str(path),
            f"convert them: tr '\\r' '\\n' < {path.name} > NEW",
        )
    entries = _Reader(path, file.encoding).read(file.content)
    header, line = next(
        ((e.forms[0], e.msgid) for e in entries if e.is_header and e.forms), ("", 1)
    )
    num_forms, form_of = plural_rule(header, location(path, line))
    _check(path, entries, num_forms)
    return Catalogue(
        file=file,
        entries=entries,
        language=header_field(header, "Language"),
        num_forms=num_forms,
        form_of=form_of,
    )


def header_field(header: str, name: str) -> str | None:
    """Return the value of a field of a header, or None if it is missing or empty."""
    for line in header.split("\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == name.lower():
            return value.strip() or None
    return None


def plural_rule(header: str, where: str) -> tuple[int | None, Callable[[int], int]]:
    """Return the number of plural forms of a header, and the function from a number to its form.

    None and the rule of English without a rule. Raises DataError for a rule that is not valid.
    """
    rule = header_field(header, "Plural-Forms")
    match = _PLURALS.search(f"{rule}\n") if rule else None
    if match is None:  # a template has nplurals=INTEGER
        return None, _english
    count = int(match[1]) if len(match[1]) < 4 else MOST_FORMS + 1
    try:
        if not 1 <= count <= MOST_FORMS:
            raise ValueError(f"nplurals must be between 1 and {MOST_FORMS}")
        form_of = gettext.c2py(match[2].strip())
        outside = [n for n in range(200) if not 0 <= form_of(n) < count]
        if outside:
            raise ValueError(f"the form of the number {outside[0]} is not below nplurals={count}")
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise DataError(
            f"the rule of Plural-Forms is not valid: {error}",
            where,
            "write it as in the manual of GNU gettext, such as nplurals=2; plural=(n != 1);",
        ) from error
    return count, form_of


def _english(number: int) -> int:
    return int(number != 1)


class _Reader:
    """Collects the entries of a PO file; comments belong to the entry after them."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.path, self.encoding = path, encoding
        self.number = self.line_start = 0
        self.entries: list[Entry] = []
        self.entry: Entry | None = None
        self.part = ""  # the last keyword of the entry
        self.without_string: str | None = None
        self.num_strings = 0

    def read(self, content: str) -> tuple[Entry, ...]:
        for self.number, raw in enumerate(content.split("\n"), start=1):
            if len(raw) > LINE_LIMIT:
                fault = f"the line is longer than {LINE_LIMIT:,} characters, the most allowed"
                raise DataError(fault, self.where, "split it into several strings")
            line = raw.strip()
            if line.startswith("#"):
                self._comment(raw)
            elif line:
                self._tokens(raw)
            self.line_start += len(raw) + 1
        self._finish()
        return tuple(self.entries)

    @property
    def where(self) -> str:
        return location(self.path, self.number)

    def _finish(self) -> None:
        """End the entry; comments alone are dropped."""
        if self.without_string is not None:
            raise _syntax("a string in double quotes must follow the keyword", self.without_string)
        if self.entry is not None and self.entry.source is not None:
            self.entries.append(self.entry)
        self.entry = None
        self.part = ""
        self.num_strings = 0

    def _comment(self, line: str) -> None:
        kind = line.lstrip()[:2]
        if self.part or kind == "#~":
            self._finish()
        if kind == "#~":
            return
        self.entry = entry = self.entry or Entry()
        if kind == "#,":
            after = line.index("#,") + 2
            entry.flags |= {flag.strip() for flag in line[after:].split(",")}
            if entry.flags_start is None:
                entry.flags_start = self.line_start + after
        elif kind == "#|" and entry.start is None:
            entry.start = self.line_start

    def _tokens(self, line: str) -> None:
        position = 0
        while position < len(line):
            if keyword := _KEYWORD.match(line, position):
                if self.without_string is not None:
                    raise _syntax("a string in double quotes must follow the keyword", self.where)
                if self.entry is not None and self.entry.forms and keyword[1] != "msgstr":
                    self._finish()
                self.entry = self.entry or Entry()
                self._begin(self.entry, keyword)
                self.part, self.without_string = keyword[1], self.where
                position = keyword.end()
            elif line[position] == '"' and self.entry is not None and self.part:
                match = _STRING.match(line, position)
                if match is None:
                    raise _syntax("the string has no closing double quote", self.where)
                self.num_strings += 1
                if self.num_strings > MOST_STRINGS:
                    raise _syntax(f"a message with more than {MOST_STRINGS:,} strings", self.where)
                self.without_string = None
                position = match.end()
                text = _unescaped(match[1], self.encoding, self.where)
                if self.part == "msgstr":
                    self.entry.forms[-1] += text
                    self.entry.forms_end = self.line_start + position
                elif self.part != "domain":
                    name = _FIELDS[self.part]
                    setattr(self.entry, name, getattr(self.entry, name) + text)
            elif line[position].isspace():
                position += 1
            else:
                raise _syntax(
                    f"neither a keyword nor a string: {line[position : position + 40].rstrip()!r}",
                    self.where,
                )

    def _begin(self, entry: Entry, keyword: re.Match[str]) -> None:
        """Begin a part of an entry. Raises DataError for a keyword that may not follow there."""
        name, index = keyword[1], int(keyword[2] or 0)
        misplaced = _syntax(f"{keyword[0]} is not allowed at this position", self.where)
        if (keyword[2] is not None) != (name == "msgstr" and entry.plural is not None):
            raise misplaced
        if name == "domain":
            return
        if name == "msgstr":
            if entry.source is None or index != len(entry.forms):
                raise misplaced
            if index >= MOST_FORMS:
                raise _syntax(f"more than {MOST_FORMS} plural forms", self.where)
            if not entry.forms:
                entry.forms_start = self.line_start + keyword.start()
            entry.forms.append("")
            return
        without_source = name == "msgid_plural" and entry.source is None
        if without_source or entry.forms or getattr(entry, _FIELDS[name]) is not None:
            raise misplaced
        if name == "msgctxt" and entry.source is not None:
            raise _syntax("msgctxt must be before msgid", self.where)
        if entry.start is None:
            entry.start = self.line_start
        entry.msgid = self.number if name == "msgid" else entry.msgid
        setattr(entry, _FIELDS[name], "")


def _unescaped(text: str, encoding: str, where: str) -> str:
    """Return the text of a string. Octal and hexadecimal escapes are bytes in the encoding."""

    def replaced(match: re.Match[str]) -> str:
        if match["letter"] is None:
            return _characters(match[0], encoding, where)
        if match["letter"] not in _SIMPLE:
            raise _syntax(f"the escape \\{match['letter']} is not valid", where)
        return _SIMPLE[match["letter"]]

    return _ESCAPE.sub(replaced, text) if "\\" in text else text


def _characters(escapes: str, encoding: str, where: str) -> str:
    r"""Return the characters of consecutive escapes of bytes, such as \303\251 for é."""
    codes = [
        int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in escapes.split("\\")[1:]
    ]
    shown = escapes[:24]
    if not all(0 < code < 256 for code in codes):
        raise _syntax(f"the escape {shown} is no byte from 1 to 255", where)
    try:
        return bytes(codes).decode("utf-8" if encoding.lower().startswith("utf") else encoding)
    except UnicodeDecodeError as error:
        raise _syntax(f"the escapes {shown} are no characters in {encoding}", where) from error


def _syntax(fault: str, where: str) -> DataError:
    return DataError(
        f"this is not a valid PO file: {fault}",
        where,
        'each message is msgid "..." and then msgstr "..."; msgfmt --check names all errors',
    )


def _check(path: Path, entries: tuple[Entry, ...], num_forms: int | None) -> None:
    """Raise DataError for an incomplete or repeated message, or a wrong number of forms."""
    lines: dict[tuple[str | None, str | None], int] = {}
    for entry in entries:
        where = location(path, entry.msgid)
        if not entry.forms:
            raise _syntax("the message has no msgstr", where)
        key = (entry.context, entry.source)
        if key in lines:
            raise DataError(
                f"the message occurs twice: also in line {lines[key]}",
                where,
                "keep one of the two, or run msguniq",
            )
        lines[key] = entry.msgid
        is_wrong = num_forms is not None and len(entry.forms) != num_forms
        if entry.plural is not None and is_wrong and entry.is_translated:
            raise DataError(
                f"the message must have {num_forms} plural forms, as the header states, but has "
                f"{len(entry.forms)}",
                where,
                f"write msgstr[0] to msgstr[{(num_forms or 1) - 1}], or correct Plural-Forms",
            )
