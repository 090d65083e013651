"""Reads the rows of a table of tabs or of a .csv file, and texts in one of its columns.

A tab ends a cell of a table of tabs and a newline ends a row; quotes have no special meaning. The
cells of a .csv file may be quoted.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.formats.csv_rows import CELL_LIMIT, Separator, csv_rows, separator_of
from headway.data.formats.lines import ending, location, read_lines
from headway.data.formats.tables import listed

# If columns are given by number, a first line is a header only if each cell is one of these words.
_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fo fr ga gd gl gu he hi "
    "hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms "
    "mt my nb ne nl nn no oc pa pl ps pt ro ru rw sd si sk sl sm sn so sq sr st su sv sw ta "
    "te tg th tk tl tr tt ug uk ur uz vi xh yi yo zh zu"
)
_LANGUAGES = (
    "arabic bulgarian catalan chinese croatian czech danish dutch english estonian finnish french "
    "german greek hebrew hindi hungarian icelandic indonesian irish italian japanese korean "
    "latvian lithuanian norwegian persian polish portuguese romanian russian serbian slovak "
    "slovenian spanish swedish thai turkish ukrainian vietnamese"
)
_ROLES = "source target src tgt id text translation source_text target_text sentence original"
_HEADER_WORDS = frozenset(f"{_CODES} {_LANGUAGES} {_ROLES}".split())
_REGION = re.compile(r"[-_][A-Za-z]{2,4}$")


def read_texts(paths: Sequence[Path], column: str | None = None) -> Iterator[str]:
    """Stream every line of text files, or one column of tables (.tsv, .tab, .csv), plain or
    .gz.

    `column` is a name in the first line or a number from 1; it may be None for a table of one
    column. Raises what `read_lines` raises; UsageError if the column does not exist, DataError for
    a row without it.
    """
    for path in paths:
        if ending(path) in (".tsv", ".tab", ".csv"):
            yield from _read_column(path, column)
        else:
            yield from read_lines(path)


def _read_column(path: Path, column: str | None) -> Iterator[str]:
    separator = None
    if ending(path) == ".csv":
        is_named = column is not None and not is_column_number(column)
        separator = separator_of(path, (lambda cells: column in cells) if is_named else None)
    _, first = next(table_rows(path, separator), (0, None))
    if first is None:
        return
    cells = [cell.strip() for cell in first]
    if column is None and len(cells) > 1:
        raise UsageError(
            f"the table has {len(cells)} columns: {listed(cells)}",
            where=str(path),
            hint="choose the column of the text with --data.column, by name or number from 1",
        )
    index = column_index(path, cells, column or "1")
    has_header = (column is not None and not is_column_number(column)) or looks_like_header(cells)
    rows = table_rows(path, separator)
    if has_header:
        next(rows)
    for number, row in rows:
        if len(row) <= index and any(cell.strip() for cell in row):
            raise DataError(
                f"the row must have at least {index + 1} columns, but has {len(row)}",
                location(path, number),
                "separate the cells of this row as in the first one, or delete the row",
            )
        yield row[index].strip() if len(row) > index else ""


def table_rows(path: Path, separator: Separator | None) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of every row, the header included; a .csv file has a separator."""
    if separator is not None:
        yield from csv_rows(path, separator)
        return
    for number, line in enumerate(read_lines(path, CELL_LIMIT), start=1):
        yield number, line.split("\t")


def column_index(path: Path, cells: list[str], column: str) -> int:
    """Return the index of a column, by its name in the first line or its number from 1.

    Raises UsageError if there is none, or more than one.
    """
    if is_column_number(column):
        if not 1 <= int(column) <= len(cells):
            raise UsageError(
                f"there is no column {column}: the columns are {listed(cells)}",
                where=str(path),
                hint=f"give a number from 1 to {len(cells)}",
            )
        return int(column) - 1
    if cells.count(column) > 1:
        raise UsageError(
            f"{cells.count(column)} columns have the name {column!r}",
            where=str(path),
            hint="give the number of the column, from 1",
        )
    if column not in cells:
        raise UsageError(
            f"there is no column {column!r} in the first line, which has {listed(cells)}",
            where=location(path, 1),
            hint="give one of these names, or numbers, such as --source 1 --target 2",
        )
    return cells.index(column)


def is_column_number(name: str) -> bool:
    """Return whether a column is named by its number."""
    return name.isascii() and name.isdigit()


def looks_like_header(cells: list[str]) -> bool:
    """Return whether each cell of a first line is a word that names a column of texts."""
    words = [_REGION.sub("", cell) for cell in cells]
    return len(set(cells)) == len(cells) and all(word.lower() in _HEADER_WORDS for word in words)
