"""Reads the cells of tables of tabs, and of .csv files, whose separator is found in the first rows.

A tab ends a cell of a table of tabs and a newline ends a row; quotes have no special meaning. The
cells of a .csv file may be quoted; quoted ones may contain separators and line breaks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from headway.base.errors import DataError
from headway.data.formats.lines import ending, location, read_lines

if TYPE_CHECKING:
    from _csv import Reader

CELL_LIMIT = 16 * 2**20
"""Maximum length of a line in bytes, and of a cell in characters."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SAMPLE = 50  # lines in which the separator is sought

_DECLARED = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # the first line of a file for Excel
_FAULTS = (
    (
        "unexpected end of data",
        "a quote begins in this row and does not end",
        "close it, or write a quote inside a quoted cell as two quotes",
    ),
    (
        "field larger than field limit",
        f"a cell has more than {CELL_LIMIT:,} characters",
        "if a quote is not closed, close it; else shorten the cell",
    ),
    (
        "expected after",
        "a quoted cell ends, but no separator follows",
        "write a quote inside a quoted cell as two quotes",
    ),
    (
        "new-line character",
        "a cell without quotes has a carriage return",
        "quote the cell, or remove the character: tr -d '\\r'",
    ),
)
"""Part of the message of `csv.Error`, what it means, and how to mend the file."""

# The limit of the standard library, 131,072 characters, is less than a long document.
csv.field_size_limit(CELL_LIMIT)


@dataclass(frozen=True)
class Separator:
    """What separates the cells of a file. is_declared: whether its first line declares it."""

    character: str
    is_declared: bool = False

    @property
    def name(self) -> str:
        """The name of the character in the plural, for messages."""
        return SEPARATORS.get(self.character, repr(self.character))


TAB = Separator("\t")


@dataclass(frozen=True)
class Table:
    """A table that is open for reading. rows: yields (number of the row's last line, cells)."""

    separator: Separator
    rows: Iterator[tuple[int, list[str]]]


def open_table(
    path: Path,
    fits: Callable[[Sequence[str]], bool] | None = None,
    separator: Separator | None = None,
) -> Table:
    """Open a .csv file, or any other file as a table of tabs.

    Empty rows of a .csv file are skipped, and spaces after a separator do not belong to a cell. The
    first line may declare the separator: sep=; An undeclared separator is one of `SEPARATORS`: the
    first one with which the first row `fits`; without `fits`, the one with which the first rows
    have the same number of cells, at least two. If none does, it is a comma. separator: that of a
    file that was opened before.

    Raises DataError if several separators do. The rows raise DataError with file and line for a
    quote that is not closed or not doubled, and for a cell that is too long.
    """
    lines = read_lines(path, CELL_LIMIT)
    if ending(path) != ".csv":
        numbered = enumerate(lines, start=1)
        return Table(TAB, ((number, line.split("\t")) for number, line in numbered))
    if separator is None:
        sample = list(islice(lines, SAMPLE))
        separator = _separator_of(sample, path, fits)
        lines = chain(sample, lines)
    return Table(separator, _csv_rows(lines, separator, path))


def _csv_rows(
    lines: Iterator[str], separator: Separator, path: Path
) -> Iterator[tuple[int, list[str]]]:
    # The line that declares the separator becomes an empty one, so that lines keep their numbers.
    texts = chain([""], islice(lines, 1, None)) if separator.is_declared else lines
    reader = _reader(texts, separator.character)
    number = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
            number = reader.line_num + 1
    except csv.Error as error:
        fault, hint = next(
            ((fault, hint) for part, fault, hint in _FAULTS if part in str(error)),
            (str(error), "correct the row"),
        )
        where = location(path, number)
        fault = f"this is not valid CSV with {separator.name}: {fault}"
        raise DataError(fault, where, hint) from error


def _separator_of(
    sample: Sequence[str], path: Path, fits: Callable[[Sequence[str]], bool] | None
) -> Separator:
    """Return the separator of a .csv file with these first lines, as `open_table` describes it."""
    declared = _DECLARED.fullmatch(sample[0].rstrip(" ")) if sample else None
    if declared:
        return Separator(declared[1], True)
    rows = {separator: _sampled(sample, separator) for separator in SEPARATORS}
    if fits is not None:
        for separator, cells in rows.items():
            if cells and fits([cell.strip() for cell in cells[0]]):
                return Separator(separator)
    regular = [
        separator
        for separator, cells in rows.items()
        if cells and len(cells[0]) > 1 and {len(row) for row in cells} == {len(cells[0])}
    ]
    if len(regular) > 1 and fits is None:
        counts = " or ".join(f"{len(rows[s][0])} columns by {SEPARATORS[s]}" for s in regular)
        raise DataError(
            f"the separator is not clear: the first rows have {counts}",
            location(path, 1),
            f"declare it in a line before the first one, such as sep={regular[0]}",
        )
    return Separator(regular[0] if regular else ",")


def _sampled(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the rows of the first lines of a file, up to an error or a row that is cut off."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(cells for cells in _reader(lines, separator) if any(cells))
    return rows


def _reader(lines: Iterable[str], separator: str) -> Reader:
    ended = (f"{line}\n" for line in lines)
    return csv.reader(ended, delimiter=separator, skipinitialspace=True, strict=True)
