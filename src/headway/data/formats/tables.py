"""Reads rows by column name from tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.data.formats.lines import check_file, ending, location, read_lines
from headway.errors import DataError, UsageError
from headway.files import parse_json

ENDINGS = (".tsv", ".tab", ".csv", ".jsonl")
LARGEST = 1e18  # largest magnitude of a regression target; its square still fits into float32
Row = tuple[int, dict[str, object]]  # line number, values by column name


def check_table(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, "rows of texts")


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[Row]:
    """Yield (line number, values by column name) for each row; empty lines are skipped.

    The cells of a .tsv file are separated by tabs, and quotes have no special meaning. The cells of
    a .csv file may be quoted and may then contain commas and line breaks. columns: maps each name
    that the first line of a table must contain to the flag that sets it, for errors. The objects of
    a .jsonl file need not contain them.

    Raises UsageError for a missing file, an unknown suffix, or a missing column; DataError with
    file and line for a row with more or fewer cells than the header, and for invalid JSON.
    """
    check_table(path)
    if ending(path) == ".jsonl":
        yield from _objects(path)
        return
    header: list[str] | None = None
    for number, cells in comma_rows(path) if ending(path) == ".csv" else _tabs(path):
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(header, columns, location(path, number))
        elif len(cells) != len(header):
            fault = f"the row has {len(cells)} cells, but the header has {len(header)}"
            hint = "write one cell for each column of the first line, or delete the row"
            raise DataError(fault, location(path, number), hint)
        else:
            yield number, dict(zip(header, cells, strict=True))


def _check_header(header: list[str], columns: Mapping[str, str], where: str) -> None:
    for name, flag in columns.items():
        if header.count(name) != 1:
            count = "no column is" if name not in header else "more than one column is"
            raise UsageError(
                f"{count} named {name!r} in the first line: {', '.join(header)[:200]}",
                where,
                f"name the column with {flag} NAME",
            )


def checked_text(row: Mapping[str, object], name: str, where: str) -> str:
    """Return the text of a cell, stripped. Raises DataError if it is empty or not a text."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        fault = "empty" if isinstance(value, str) else "missing, or not a text"
        hint = "enter a text, or delete the row"
        raise DataError(f"the value of {name!r} is {fault}", where, hint)
    return value.strip()


def parsed_number(value: object, name: str, where: str) -> float:
    """Return the number in a cell, from -1e18 to 1e18.

    name: what the cell contains, for the error. Raises DataError for a value that is not a number,
    not finite, or outside the range.
    """
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


def _tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, line.split("\t")


def comma_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the row's last line, cells) of a .csv file; empty rows are skipped.

    Raises DataError with file and line for a quote that is not closed or not doubled.
    """
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        fault = f"this is not valid CSV: {error}"
        hint = "write a quote inside a quoted cell as two quotes"
        raise DataError(fault, location(path, reader.line_num), hint) from error


def _objects(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        row = parse_json(line.encode(), location(path, number))
        if not isinstance(row, dict):
            raise DataError(
                "the line must be a JSON object, but it is another JSON value",
                location(path, number),
                'write each row as {"name": value, ...} on one line',
            )
        yield number, row
