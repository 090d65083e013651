"""Reads rows by column name from tables with a header (.tsv, .csv) and records (.jsonl, .json,
.parquet), plain or .gz."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats import records
from headway.data.formats.csv_rows import (
    CELL_LIMIT,
    TAB,
    Separator,
    csv_rows,
    separator_of,
)
from headway.data.formats.lines import check_file, ending, location, read_lines

ENDINGS = (".tsv", ".tab", ".csv", *records.ENDINGS)
LARGEST = 1e18  # largest magnitude of a regression target; its square still fits into float32
_COMMA = re.compile(r"(?P<whole>[+-]?\d*),(?P<decimals>\d+)(?:[eE][+-]?\d+)?")
Row = tuple[int, dict[str, object]]  # line number, values by column name


def check_table(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, "rows of texts")


def read_rows(
    path: Path, columns: Mapping[str, str], bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[Row]:
    """Yield (line number, values by column name) for each row; empty lines are skipped.

    The cells of a .tsv file are separated by tabs, and quotes have no special meaning. The cells of
    a .csv file are separated by commas, semicolons, tabs or vertical bars (`separator_of`); quoted
    ones may contain separators and line breaks. columns: maps each name
    that the first line of a table must contain to the flag that sets it, for errors. Records
    (`read_records`) need not contain them. bad_rows: the policy for rows that are invalid.

    Raises UsageError for a missing file, an unknown suffix, or a missing column; DataError with
    file and line for a row with more or fewer cells than the header, and for an invalid record.
    """
    check_table(path)
    if ending(path) in records.ENDINGS:
        yield from records.read_records(path, bad_rows=bad_rows)
        return
    if ending(path) == ".csv":
        separator = separator_of(path, lambda cells: bool(columns) and set(columns) <= set(cells))
        rows = csv_rows(path, separator)
    else:
        separator, rows = TAB, _tabs(path)
    first = next(rows, None)
    if first is None:
        return
    header = [cell.strip() for cell in first[1]]
    _check_header(header, columns, location(path, first[0]), separator)

    def by_name(numbered: tuple[int, list[str]]) -> Row:
        number, cells = numbered
        if len(cells) != len(header):
            raise DataError(
                f"the row has {len(cells)} cells, separated by {separator.name}, but the first "
                f"line has {len(header)}",
                location(path, number),
                "write one cell for each column of the first line, or delete the row",
            )
        return number, dict(zip(header, cells, strict=True))

    yield from bad_rows.parsed(rows, by_name)


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


def checked_text(row: Mapping[str, object], name: str, where: str, flag: str = "") -> str:
    """Return the text of a cell, stripped.

    flag: as in `no_value`. Raises DataError if the value is empty or not a text.
    """
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise no_value(row, name, where, "a text", flag)
    return value.strip()


def no_value(
    row: Mapping[str, object], name: str, where: str, expected: str, flag: str = ""
) -> DataError:
    """Return the error for a value that is missing, empty, or not what is expected.

    flag: the flag that names the column or key, for the hint.
    """
    value = row.get(name)
    if name not in row:
        keys = ", ".join(repr(key)[:30] for key in list(row)[:12])
        hint = f"name another with {flag} NAME, or add the value" if flag else "add the value"
        return DataError(f"the value of {name!r} is missing; there are {keys}", where, hint)
    is_empty = isinstance(value, str) and not value.strip()
    fault = "empty" if is_empty else f"{records.what_is(value)}, but must be {expected}"
    hint = "enter a value, or delete the row"
    return DataError(f"the value of {name!r} is {fault}", where, hint)


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


def _tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path, CELL_LIMIT), start=1):
        if line.strip():
            yield number, line.split("\t")
