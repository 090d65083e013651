"""Reads tagged sentences from files: CoNLL columns, CoNLL-U or records (.jsonl, .json, .parquet),
plain or .gz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.lines import check_file, ending, location, read_lines
from headway.data.formats.records import ENDINGS as RECORDS
from headway.data.rows import Row, plain_text, read_rows, what_is

COLUMNS = (".conll", ".conllu", ".conll03", ".iob", ".iob2", ".bio", ".txt", ".tsv")
ENDINGS = (*COLUMNS, *RECORDS)
TAGGED = "tagged words"
CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of a .conllu file (universaldependencies.org/format.html)."""

_FORM, _UPOS = CONLL_U.index("form"), CONLL_U.index("upos")
_WORDS, _TAGS = ("words", "tokens"), "tags"  # keys of records
_DOCUMENT = "-DOCSTART-"  # starts a document in CoNLL-2003; not a word
_Line = tuple[int, list[str]]  # the number of a line, and its columns


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence (at least one) and one tag per word.

    where: the file, and the line of the first word.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_tagged(
    paths: Sequence[Path], column: str | None = None, bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[TaggedSentence]:
    """Yield the sentences of files in order.

    A column file has one word per line and a blank line between sentences. Columns are separated by
    tabs or, in a line without tabs, by spaces; other spaces, such as U+00A0, are part of a word.
    The word is in the first column and the tag in the last. In CoNLL-U (a .conllu file, or a file
    whose first word has ten columns and the ID 1) they are the columns form and upos, # starts a
    comment, and multiword tokens (1-2) and empty nodes (8.1) are skipped. In other files a line
    with # is a comment if it precedes a sentence and cannot be its first word: the number of its
    columns is another one, or its tag occurs on no other line. A record (.jsonl, .json, .parquet)
    is {"words": [...], "tags": [...]}; the keys may be tokens and, for example, ner_tags.

    column: the column of the tags, if it is another one: a number from 1; in CoNLL-U also a name;
    in records a key. bad_rows: the policy for sentences that are invalid.

    Raises UsageError for a missing file, an unknown suffix, or an unknown column; DataError with
    file and line for a line with more or fewer columns than the first word, an empty word or tag,
    different numbers of words and tags, or a sentence without words.
    """
    for path in paths:
        check_tagged(path)
        if ending(path) in RECORDS:
            records = read_rows(path, {column or _TAGS: "--data.column"}, bad_rows)
            yield from bad_rows.parsed(records, partial(_of_record, column))
        else:
            yield from _read_columns(path, column, bad_rows)


def check_tagged(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, TAGGED)


def _read_columns(path: Path, column: str | None, bad_rows: BadRows) -> Iterator[TaggedSentence]:
    lines = list(read_lines(path))  # gone over twice; the sentences of a file are in memory anyway
    universal = ending(path) == ".conllu" or _is_conll_u(lines)
    chosen = _column_index(path, column, universal)
    form = _form_of(lines, chosen, universal)

    def tagged(lines: list[_Line]) -> TaggedSentence:
        for number, cells in lines:
            _check_cells(cells, form, chosen, location(path, number))
        words = tuple(cells[_FORM if universal else 0].strip(" ") for _, cells in lines)
        tags = tuple(cells[chosen].strip() for _, cells in lines)
        for (number, _), word, tag in zip(lines, words, tags, strict=True):
            if not word or not tag:
                hint = "write a word and a tag on each line, or delete the line"
                missing = "tag" if word else "word"
                raise DataError(f"the {missing} is empty", location(path, number), hint)
        return TaggedSentence(words, tags, location(path, lines[0][0]))

    yield from bad_rows.parsed(_sentences(lines, form, chosen, universal), tagged)


def _is_conll_u(lines: Sequence[str]) -> bool:
    """Return whether the first word is that of a CoNLL-U file: ten columns, the first is an ID."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(CONLL_U) and re.fullmatch(r"1(-\d+)?|0\.1", cells[0]) is not None


def _sentences(
    lines: Sequence[str], form: _Form, chosen: int, universal: bool
) -> Iterator[list[_Line]]:
    """Yield the lines of each sentence that have words."""
    sentence: list[_Line] = []
    for number, line in enumerate(lines, start=1):
        if universal and line.startswith("#"):
            continue
        cells = _cells(line)
        if not cells:
            if sentence:
                yield sentence
            sentence = []
        elif cells[0] == _DOCUMENT or (universal and not cells[0].isdigit()):
            continue
        elif sentence or not line.startswith("#") or not form.is_comment(cells, chosen):
            sentence.append((number, cells))
    if sentence:
        yield sentence


def _cells(line: str) -> list[str]:
    """Return the columns of a line; none of a line of spaces and tabs."""
    if not line.strip(" \t"):
        return []
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


@dataclass(frozen=True)
class _Form:
    """The form of the lines of a file with words.

    width: the number of columns of the first word, whose line is `line`. tags: the tags of all
    words that do not begin a sentence with #.
    """

    line: int
    width: int
    tags: frozenset[str]

    def is_comment(self, cells: Sequence[str], chosen: int) -> bool:
        """Return whether a line with # before a sentence is not its first word."""
        return len(cells) != self.width or cells[chosen].strip() not in self.tags


def _form_of(lines: Sequence[str], chosen: int, universal: bool) -> _Form:
    """Return the form of the lines of a file."""
    tags: set[str] = set()
    line_of_first = width = 0
    begins = True
    for number, line in enumerate(lines, start=1):
        cells = _cells(line)
        if not cells:
            begins = True
        elif cells[0] == _DOCUMENT or (universal and not cells[0].isdigit()):
            continue
        elif not (begins and line.startswith("#")):
            begins = False
            if not width:
                line_of_first, width = number, len(cells)
            if len(cells) == width and chosen < width:
                tags.add(cells[chosen].strip())
            if universal:  # comments are those with #, whatever the tags are
                break
    return _Form(line_of_first, width, frozenset(tags))


def _check_cells(cells: list[str], form: _Form, chosen: int, where: str) -> None:
    width = form.width
    if len(cells) != width:
        raise DataError(
            f"the line has {len(cells)} columns, but line {form.line}, the first with a word, has "
            f"{width}: {' '.join(cells)[:60]!r}",
            where,
            "write a word per line, with its tag in the last column, and a blank line between "
            "sentences; correct the line that is wrong",
        )
    if width < 2:
        raise DataError(
            "the line must have at least 2 columns, a word and its tag, but it has 1",
            where,
            "add a column with the tag, separated by a tab",
        )
    if chosen >= width:
        raise UsageError(
            f"there is no column {chosen + 1}: the line has {width} columns",
            where,
            f"set --data.column to a number from 1 to {width}",
        )


def _column_index(path: Path, column: str | None, universal: bool) -> int:
    """Return the index of the column that contains the tag, from 0, or -1 for the last."""
    if column is None:
        return _UPOS if universal else -1
    if column.isdecimal() and int(column) >= 1:
        return int(column) - 1
    if universal and column.lower() in CONLL_U:
        return CONLL_U.index(column.lower())
    known = f"one of {', '.join(CONLL_U)}, or a number" if universal else "a number"
    raise UsageError(
        f"--data.column {column}: there is no such column",
        str(path),
        f"set --data.column to {known} from 1",
    )


def _of_record(column: str | None, row: Row) -> TaggedSentence:
    words_key = next((key for key in _WORDS if key in row.values), _WORDS[0])
    tags_key = column or _only_tags(row)
    words, tags = (_texts(row, key) for key in (words_key, tags_key))
    if len(words) != len(tags):
        raise DataError(
            f"the sentence has {len(words)} words, but {len(tags)} {tags_key}",
            row.where,
            "write one tag for each word",
        )
    if not words:
        raise DataError("the sentence has no words", row.where, "delete the line")
    return TaggedSentence(words, tags, row.where)


def _only_tags(row: Row) -> str:
    """Return the key of the tags of a record: tags, or the only one like ner_tags."""
    keys = [key for key in row.values if key == _TAGS or key.endswith(f"_{_TAGS}")]
    if _TAGS in keys or not keys:
        return _TAGS
    if len(keys) > 1:
        raise UsageError(
            f"the record has several kinds of tags: {', '.join(keys)}",
            row.where,
            f"choose one with --data.column, such as --data.column {keys[-1]}",
        )
    return keys[0]


def _texts(row: Row, key: str) -> tuple[str, ...]:
    value = row.values.get(key)
    if not isinstance(value, list):
        raise row.fault(key, "a list of texts")
    texts = [plain_text(item) for item in value]
    if None in texts:
        kind = what_is(value[texts.index(None)])
        raise DataError(f"an entry of {key!r} is {kind}", row.where, "write one text for each word")
    if not all(texts):
        raise DataError(f"an entry of {key!r} is empty", row.where, "write one text for each word")
    return tuple(text for text in texts if text is not None)
