"""Streams the documents of files, folders, and collections that come with Python."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.base.errors import UsageError
from headway.data.formats.lines import check_file, ending, read_lines
from headway.data.formats.records import LINE_LIMIT, LINES, PARQUET
from headway.data.formats.split_files import TRAIN, VALID, split_files
from headway.data.rows import ENDINGS as ROWS
from headway.data.rows import column_texts

PROSE = (".txt", ".md")
ENDINGS = (*PROSE, *ROWS)
"""The suffixes of files that are named."""
IN_FOLDERS = (*PROSE, *LINES, PARQUET)
"""Those of files that are found in folders, where a table or a .json file may be anything."""
TOKENS = "plan.json"
"""The file that a folder of tokens has (`token_shards.py`)."""

PART = 1 << 16  # characters of a long document in memory at once

Split = Literal["file", "blank-line", "line", "title"]
_TITLE = re.compile(
    r"\s*= [^=].* =\s*"
)  # title of an article in WikiText; "= = x = =" is a section title


@dataclass(frozen=True)
class Part:
    """A part of a document's text. first: whether it is the first part of a document."""

    text: str
    first: bool


def read_documents(
    sources: Sequence[str], split: Split = "file", text: str | None = None, part: str = TRAIN
) -> Iterator[Part]:
    r"""Yield the documents of files (`ENDINGS`, plain or .gz), folders and collections, in parts.

    split: documents of a text file: the whole file (`file`), each paragraph (`blank-line`), each
    line (`line`), or each article, from one line like "= Title =" to the next (`title`, the format
    of WikiText). Each row of a table and each record is a document: its text in the column `text`
    (`column_texts`).

    Folders are read recursively in the order of names; hidden files and files with other suffixes
    are skipped. All lines of text files, also the last, end in "\n". Documents of whitespace only
    are left out. Memory holds one line (at most 64 MiB) and one part. part: the split that is read
    of folders as those of the hub (`text_files`).

    Raises UsageError for a missing file, DataError with file and line for invalid text.
    """
    for source in sources:
        if source in COLLECTIONS and not Path(source).exists():
            for document in COLLECTIONS[source]():
                yield from _cut(document, True)
            continue
        for path in text_files(Path(source), part):
            if ending(path) in PROSE:
                yield from _parts(path, split)
                continue
            for document in column_texts(path, text):
                if document.strip():
                    yield from _cut(document, True)


def text_files(source: Path, part: str = TRAIN) -> list[Path]:
    """Return the file `source`, or the text files of the folder `source`, sorted.

    Of a folder with numbered files of splits (`split_files`), they are those of the split `part`,
    if there is one. Raises UsageError if there are none.
    """
    if source.is_file():
        check_file(source, ENDINGS, "texts")
        return [source]
    if not source.is_dir():
        raise UsageError(
            "no such file or folder",
            str(source),
            f"give a path, or one of the collections: {', '.join(COLLECTIONS)}",
        )
    if numbered := split_files(source, ENDINGS, are_numbered=True):
        return numbered.get(part) or [path for files in numbered.values() for path in files]
    # Hidden files are skipped: .git, .venv and system files are not part of a corpus.
    paths = sorted(
        path
        for path in source.rglob("*")
        if ending(path) in IN_FOLDERS
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(source).parts)
    )
    if not paths and (source / TOKENS).is_file():
        raise UsageError(
            "the folder holds tokens, not text", str(source), "headway train gpt learns from tokens"
        )
    if not paths:
        raise UsageError(
            f"the folder has no file that ends in {', '.join(IN_FOLDERS)}",
            str(source),
            "check the path, or name the files; those in a folder are not read as tables",
        )
    return paths


def has_validation(source: str) -> bool:
    """Return whether a source is a folder with numbered files of a validation split."""
    return Path(source).is_dir() and VALID in split_files(Path(source), ENDINGS, are_numbered=True)


def _parts(path: Path, split: Split) -> Iterator[Part]:
    """Yield the documents of a text file in parts, which end at line ends unless lines are very
    long."""
    lines: list[str] = []
    size, first, blank = 0, True, True
    for line in read_lines(path, LINE_LIMIT):
        is_empty = not line.strip()
        ends = split == "line" or (split == "blank-line" and is_empty)
        if split == "title" and _TITLE.fullmatch(line):
            if lines and not blank:
                yield from _cut("".join(lines), first)
            lines, size, first, blank = [], 0, True, True
        if not (ends and is_empty):
            lines.append(line + "\n")
            size += len(line) + 1
            blank = blank and is_empty
        if lines and not blank and (ends or size >= PART):
            yield from _cut("".join(lines), first)
            lines, size, first, blank = [], 0, ends, ends
        elif ends:
            lines, size, first, blank = [], 0, True, True
    if lines and not blank:
        yield from _cut("".join(lines), first)


def _cut(text: str, first: bool) -> Iterator[Part]:
    """Yield `text` in parts of less than 2 `PART` characters.

    A cut is after a line end or else before a space, so that it does not split a token.
    """
    start = 0
    while start < len(text):
        end = len(text)
        if end - start >= 2 * PART:
            latest = start + PART
            space = text.rfind(" ", start + 1, latest)
            end = text.rfind("\n", start, latest) + 1 or (space if space > 0 else latest)
        yield Part(text[start:end], first)
        start, first = end, False


def python_docs() -> Iterator[str]:
    """Yield Python's language reference, as shown by `help()`; each chapter is a document."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield topics[name]


COLLECTIONS: dict[str, Callable[[], Iterator[str]]] = {"python-docs": python_docs}
"""Texts that come with Python, by collection name."""
