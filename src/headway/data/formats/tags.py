"""Sentences with a tag at each word: CoNLL columns, CoNLL-U and .jsonl, plain or .gz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.lines import check_file, ending, place, read_lines
from headway.errors import DataError, UsageError
from headway.files import parse_json

COLUMNS = (".conll", ".conllu", ".conll03", ".iob", ".iob2", ".bio", ".txt", ".tsv")
ENDINGS = (*COLUMNS, ".jsonl")
CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of a .conllu file (universaldependencies.org/format.html)."""

_FORM, _UPOS = CONLL_U.index("form"), CONLL_U.index("upos")
_DOCUMENT = "-DOCSTART-"  # a line of CoNLL-2003 that is no word


@dataclass(frozen=True)
class TaggedSentence:
    """As many tags as words, one at least. where: the file, and the line of the first word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_tagged(paths: Sequence[Path], column: str | None = None) -> Iterator[TaggedSentence]:
    """The sentences of files in order.

    A file of columns has a word a line and a blank line between sentences; tabs part the columns,
    or else blanks. The word is the first column and the tag the last. In a .conllu file they are
    form and upos, # begins a comment, and words that are parts or that are left out in speech (1-2,
    8.1) are passed over. column: another one for the tag, its number from 1 or, of CoNLL-U, its
    name. A line of .jsonl is {"words": [...], "tags": [...]}; column names another key there.

    UsageError for a missing file, an ending that is none of these, or an unknown column; DataError
    with file and line for a line with more or fewer columns than the first, an empty word or tag,
    words and tags that are not equally many, and a sentence without words.
    """
    for path in paths:
        check_tagged(path)
        if ending(path) == ".jsonl":
            yield from _objects(path, column or "tags")
        else:
            yield from _columns(path, column)


def check_tagged(path: Path) -> None:
    """UsageError unless the file is there and has one of the endings."""
    check_file(path, ENDINGS, "tagged words")


def _columns(path: Path, column: str | None) -> Iterator[TaggedSentence]:
    universal = ending(path) == ".conllu"
    chosen = _place(path, column, universal)
    words: list[str] = []
    tags: list[str] = []
    start = width = 0
    for number, line in enumerate(read_lines(path), start=1):
        if universal and line.startswith("#"):
            continue
        if not line.strip():
            if words:
                yield TaggedSentence(tuple(words), tuple(tags), place(path, start))
            words, tags = [], []
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if cells[0] == _DOCUMENT or (universal and not cells[0].isdigit()):
            continue
        width = width or len(cells)
        _check_cells(cells, width, chosen, place(path, number))
        start = start if words else number
        words.append(cells[_FORM if universal else 0].strip())
        tags.append(cells[chosen].strip())
        if not words[-1] or not tags[-1]:
            what = "tag" if words[-1] else "word"
            raise DataError(f"the {what} is empty", place(path, number), "fill it in")
    if words:
        yield TaggedSentence(tuple(words), tuple(tags), place(path, start))


def _check_cells(cells: list[str], width: int, chosen: int, where: str) -> None:
    if len(cells) != width:
        raise DataError(
            f"the line has {len(cells)} columns, the first one of the file {width}",
            where,
            "a word, and its tag in the last column; a blank line between sentences",
        )
    if width < 2:
        raise DataError("one column only: there is no tag beside the word", where)
    if chosen >= width:
        raise UsageError(
            f"there is no column {chosen + 1}: the line has {width}",
            where,
            "--data.column NUMBER, counted from 1",
        )


def _place(path: Path, column: str | None, universal: bool) -> int:
    """Which column holds the tag, from 0; -1: the last."""
    if column is None:
        return _UPOS if universal else -1
    if column.isdecimal() and int(column) >= 1:
        return int(column) - 1
    if universal and column.lower() in CONLL_U:
        return CONLL_U.index(column.lower())
    known = ", ".join(CONLL_U) if universal else "a number from 1"
    raise UsageError(f"--data.column {column}: there is none; known: {known}", str(path))


def _objects(path: Path, column: str) -> Iterator[TaggedSentence]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = place(path, number)
        row = parse_json(line.encode(), where)
        if not isinstance(row, dict):
            raise DataError("not a JSON object", where)
        words, tags = (_texts(row.get(key), key, where) for key in ("words", column))
        if len(words) != len(tags):
            raise DataError(f"there are {len(words)} words and {len(tags)} {column}", where)
        if not words:
            raise DataError("the sentence has no words", where, "delete the line")
        yield TaggedSentence(words, tags, where)


def _texts(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise DataError(f"{key!r} is no list of texts", where)
    found = tuple(each.strip() for each in value)
    if not all(found):
        raise DataError(f"an entry of {key!r} is empty", where)
    return found
