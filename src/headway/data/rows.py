"""Reads rows of data files by the names or numbers of their columns: tables (.tsv, .tab, .csv) and
records (.jsonl, .ndjson, .json, .parquet), plain or .gz.

Each row knows its file and line, and raises the error for a value that is missing or wrong. A
policy (`data/bad_rows.py`) decides whether such a row stops the run or is left out.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats import records
from headway.data.formats.lines import check_file, ending, location, read_lines
from headway.data.formats.tables import TAB, Separator, open_table

TABLES = (".tsv", ".tab", ".csv")
ENDINGS = (*TABLES, *records.ENDINGS)
ROWS = "rows of texts"
"""What a file with one of these suffixes contains, for errors."""
LARGEST = 1e18  # largest magnitude of a regression target; its square still fits into float32
_COMMA = re.compile(r"(?P<whole>[+-]?\d*),(?P<decimals>\d+)(?:[eE][+-]?\d+)?")

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


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, or a record.

    line: the number of its last line, or of the row of a Parquet file. values: by the name of the
    column or key. flags: the flag that sets the name of a column, for messages.
    """

    path: Path
    line: int
    values: Mapping[str, object]
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The file and the line, as errors name them."""
        return location(self.path, self.line)

    def text(self, column: str) -> str:
        """Return the text of a cell, stripped. Raises DataError if it is empty or not a text."""
        value = self.values.get(column)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(column, "a text")
        return value.strip()

    def label(self, column: str) -> str:
        """Return a text, a number or a Boolean as a text (`plain_text`). Raises DataError for
        another value, and for an empty text."""
        text = plain_text(self.values.get(column))
        if not text:
            raise self.fault(column, "a text or number")
        return text

    def fault(self, column: str, expected: str) -> DataError:
        """Return the error for a value that is missing, empty, or not what is expected."""
        if column not in self.values:
            keys = ", ".join(repr(key)[:30] for key in list(self.values)[:12])
            flag = self.flags.get(column)
            hint = f"name another with {flag} NAME, or add the value" if flag else "add the value"
            what = f"the value of {column!r} is missing; there are {keys}"
            return DataError(what, self.where, hint)
        value = self.values[column]
        is_empty = isinstance(value, str) and not value.strip()
        fault = "empty" if is_empty else f"{what_is(value)}, but must be {expected}"
        hint = "enter a value, or delete the row"
        return DataError(f"the value of {column!r} is {fault}", self.where, hint)


def check_table(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, ROWS)


def read_rows(
    path: Path,
    columns: Mapping[str, str],
    bad_rows: BadRows = NONE_LEFT_OUT,
) -> Iterator[Row]:
    """Yield each row of a file; empty lines are skipped.

    columns: maps each name that the first line of a table must contain to the flag that sets it,
    for errors. Records (`records.read_records`) need not contain them. bad_rows: the policy for
    rows that are invalid.

    Raises UsageError for a missing file, an unknown suffix, or a missing column; DataError with
    file and line for a row with more or fewer cells than the header, and for an invalid record.
    """
    check_table(path)
    if ending(path) in records.ENDINGS:
        for number, values in records.read_records(path, bad_rows):
            yield Row(path, number, values, columns)
        return
    table = open_table(path, lambda cells: bool(columns) and set(columns) <= set(cells))
    filled = (row for row in table.rows if any(map(str.strip, row[1])))
    first = next(filled, None)
    if first is None:
        return
    header = [cell.strip() for cell in first[1]]
    _check_header(header, columns, location(path, first[0]), table.separator)

    def by_name(numbered: tuple[int, list[str]]) -> Row:
        number, cells = numbered
        if len(cells) != len(header):
            raise DataError(
                f"the row has {len(cells)} cells, separated by {table.separator.name}, but the "
                f"first line has {len(header)}",
                location(path, number),
                "write one cell for each column of the first line, or delete the row",
            )
        return Row(path, number, dict(zip(header, cells, strict=True)), columns)

    yield from bad_rows.parsed(filled, by_name)


def _check_header(
    header: list[str], columns: Mapping[str, str], where: str, separator: Separator
) -> None:
    for name, flag in columns.items():
        if header.count(name) == 1:
            continue
        is_one = len(header) == 1
        hint = f"name the column with {flag} NAME, one of these"
        if is_one and separator == TAB:
            hint = f"rename the file to .csv if other characters separate its cells; or {hint}"
        elif is_one:
            hint = f"declare another separator in a line before it, such as sep=;, or {hint}"
        raise UsageError(
            f"{'no column is' if name not in header else 'more than one column is'} named "
            f"{name!r} in the first line, which has {len(header)} "
            f"{'column' if is_one else 'columns'} separated by {separator.name}: "
            f"{listed(header)}",
            where,
            hint,
        )


def listed(cells: Sequence[str]) -> str:
    """Return the cells of the first row of a table with their numbers, for a message."""
    shown = [cell if len(cell) <= 30 else f"{cell[:29]}…" for cell in cells[:12]]
    more = [f"and {len(cells) - 12} more"] if len(cells) > 12 else []
    return ", ".join([f"{number} {cell!r}" for number, cell in enumerate(shown, 1)] + more)


def parsed_number(value: object, name: str, where: str) -> float:
    """Return the number in a cell, from -1e18 to 1e18.

    A comma separates decimals, as in 0,5, unless it may also separate thousands: 1,500. name: what
    the cell contains, for the error. Raises DataError for a value that is not a number, not finite,
    outside the range, or ambiguous.
    """
    if isinstance(value, str) and "," in value:
        value = _with_point(value.strip(), name, where)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    except OverflowError:  # an integer of JSON has any number of digits
        number = math.inf
    if math.isnan(number):
        raise DataError(
            f"{name} {str(value)[:60]!r} is not a number", where, "correct it, or delete the row"
        )
    if abs(number) > LARGEST:
        raise DataError(
            f"{name} {str(value)[:60]!r} is outside the range from {-LARGEST:g} to {LARGEST:g}",
            where,
            "use another unit, or delete the row",
        )
    return number


def _with_point(text: str, name: str, where: str) -> str:
    """Return a number with a decimal comma with a point in its place; other texts unchanged."""
    comma = _COMMA.fullmatch(text)
    if comma and len(comma["decimals"]) == 3 and comma["whole"].lstrip("+-0"):
        point, none = text.replace(",", "."), text.replace(",", "")
        raise DataError(
            f"{name} {text[:60]!r} may be {point} or {none}", where, f"write {point} or {none}"
        )
    return text.replace(",", ".") if comma else text


def plain_text(value: object) -> str | None:
    """Return what a value of a record, which may be a class, is as a text; None if it is none.

    A text is stripped. A number is its digits (classes are often 0 and 1), and the same with or
    without ".0"; a Boolean is true or false. Lists, objects, null and NaN are no texts.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | Decimal) and math.isfinite(value):
        is_whole = value == int(value) and abs(int(value)) < 2**53
        return str(int(value)) if is_whole else str(value)
    return None


def what_is(value: object) -> str:
    """Return a description of a value that is no text, for messages."""
    if value is None:
        return "null, or missing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value)[:60]


TEXT = "text"
"""The column or key of the text, unless another one is named."""


def read_texts(paths: Sequence[Path], column: str | None = None) -> Iterator[str]:
    """Stream every line of text files, and one text of each row of other files (`column_texts`).

    Raises what `read_lines` and `column_texts` raise.
    """
    for path in paths:
        yield from column_texts(path, column) if ending(path) in ENDINGS else read_lines(path)


def column_texts(path: Path, column: str | None = None) -> Iterator[str]:
    """Yield the text of each row of a table or of each record, plain or .gz.

    column: the name of a column or key, or the number of a column from 1. If it is None, it is
    `TEXT`, or the only column of a table.

    Raises UsageError if the column does not exist, DataError with file and line for a row without
    it.
    """
    if ending(path) in TABLES:
        yield from _read_column(path, column)
        return
    key = TEXT if column is None else column
    for row in read_rows(path, {key: "--data.text"}):
        text = row.values.get(key)
        if not isinstance(text, str):
            raise row.fault(key, "a text")
        yield text


def _read_column(path: Path, column: str | None) -> Iterator[str]:
    name = TEXT if column is None else column
    is_named = not is_column_number(name)
    table = open_table(path, (lambda cells: name in cells) if is_named else None)
    _, first = next(table.rows, (0, None))
    if first is None:
        return
    cells = [cell.strip() for cell in first]
    if column is None and TEXT not in cells:
        if len(cells) > 1:
            raise UsageError(
                f"the table has {len(cells)} columns: {listed(cells)}",
                where=str(path),
                hint="choose the column of the text with --data.text, by name or number from 1",
            )
        name, is_named = "1", False
    index = column_index(path, cells, name)
    if not is_named and not looks_like_header(cells):
        yield cells[index]
    for number, row in table.rows:
        if len(row) <= index and any(cell.strip() for cell in row):
            raise DataError(
                f"the row must have at least {index + 1} columns, but has {len(row)}",
                location(path, number),
                "separate the cells of this row as in the first one, or delete the row",
            )
        yield row[index].strip() if len(row) > index else ""


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
