"""Running text as a stream of documents: files, folders, and what Python itself brings along."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.data.formats.lines import ending, location, read_lines
from headway.errors import DataError, UsageError

ENDINGS = (".txt", ".md", ".jsonl")
PART = 1 << 16  # characters of a long document that are held at once
LINE_LIMIT = 64 * 2**20  # bytes; a line of a .jsonl file is a whole document, often a book

Split = Literal["file", "blank-line", "line", "title"]
_TITLE = re.compile(
    r"\s*= [^=].* =\s*"
)  # of an article as Wikipedia marks it; "= = x = =" is inside


@dataclass(frozen=True)
class Part:
    """Some of a document's text, in order. first: a document begins here."""

    text: str
    first: bool


def read_documents(
    sources: Sequence[str], split: Split = "file", key: str = "text"
) -> Iterator[Part]:
    r"""The documents of files (.txt, .md, .jsonl, plain or .gz), folders and named collections.

    A text file is one document, or one a paragraph (`blank-line`), or one a line, or one from each
    line like "= Title =" to the next (`title`, as WikiText has them). A line of a .jsonl file is a
    document always: its value of `key`, as it stands. Folders are read through, in the order of
    names; hidden names and files of other endings are passed over there. Lines of text files end in
    "\n", whatever the file has, the last one too. Documents of white space alone are left out.
    Memory holds one line (64 MiB at most) and one part.

    Raises UsageError for what is not there, DataError with file and line for what is no text.
    """
    for source in sources:
        if source in COLLECTIONS and not Path(source).exists():
            for text in COLLECTIONS[source]():
                yield from _cut(text, True)
            continue
        for path in text_files(Path(source)):
            if ending(path) == ".jsonl":
                yield from _records(path, key)
            else:
                yield from _parts(path, split)


def text_files(source: Path) -> list[Path]:
    """The file, or those of a folder that hold text. UsageError if there are none."""
    if source.is_file():
        if ending(source) not in ENDINGS:
            raise UsageError(
                f"{ending(source) or 'no ending'}: text files end in {', '.join(ENDINGS)} "
                "(or the same with .gz)",
                str(source),
                "rename it if it is plain text",
            )
        return [source]
    if not source.is_dir():
        raise UsageError(
            "no such file or folder",
            str(source),
            f"a path, or one of the collections: {', '.join(COLLECTIONS)}",
        )
    # Hidden are .git, .venv and the shadow files of other systems: text, but nobody's corpus.
    found = sorted(
        path
        for path in source.rglob("*")
        if ending(path) in ENDINGS
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(source).parts)
    )
    if not found:
        raise UsageError(f"no file in it ends in {', '.join(ENDINGS)}", str(source))
    return found


def _parts(path: Path, split: Split) -> Iterator[Part]:
    """A text file's documents, in parts that end with a line where lines are of usual length."""
    held: list[str] = []
    size, first, blank = 0, True, True
    for line in read_lines(path, LINE_LIMIT):
        is_empty = not line.strip()
        ends = split == "line" or (split == "blank-line" and is_empty)
        if split == "title" and _TITLE.fullmatch(line):
            if held and not blank:
                yield from _cut("".join(held), first)
            held, size, first, blank = [], 0, True, True
        if not (ends and is_empty):
            held.append(line + "\n")
            size += len(line) + 1
            blank = blank and is_empty
        if held and not blank and (ends or size >= PART):
            yield from _cut("".join(held), first)
            held, size, first, blank = [], 0, ends, ends
        elif ends:
            held, size, first, blank = [], 0, True, True
    if held and not blank:
        yield from _cut("".join(held), first)


def _cut(text: str, first: bool) -> Iterator[Part]:
    """`text` in parts below 2 PART, cut after a line or else before a space: tokens end there."""
    start = 0
    while start < len(text):
        end = len(text)
        if end - start >= 2 * PART:
            latest = start + PART
            space = text.rfind(" ", start + 1, latest)
            end = text.rfind("\n", start, latest) + 1 or (space if space > 0 else latest)
        yield Part(text[start:end], first)
        start, first = end, False


def _records(path: Path, key: str) -> Iterator[Part]:
    for number, line in enumerate(read_lines(path, LINE_LIMIT), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", location(path, number)) from error
        text = record.get(key) if isinstance(record, dict) else None
        if not isinstance(text, str):
            keys = ", ".join(map(repr, record)) if isinstance(record, dict) else "no object"
            raise DataError(
                f"there is no text under {key!r} (found: {keys})",
                location(path, number),
                "name the key that holds it: --data.key NAME",
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:  # JSON can spell \ud800 alone
            raise DataError(
                f"half a character (\\u{ord(text[error.start]):04x}) in the text",
                location(path, number),
                "remove it: no text has it",
            ) from error
        if text.strip():
            yield from _cut(text, True)


def python_docs() -> Iterator[str]:
    """The language reference that `help()` shows: a chapter a document."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield topics[name]


COLLECTIONS: dict[str, Callable[[], Iterator[str]]] = {"python-docs": python_docs}
"""Text that is on every machine, by the name to ask for it."""
