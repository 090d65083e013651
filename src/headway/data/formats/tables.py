"""Rows by name: tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.data.formats.lines import check_file, ending, place, read_lines
from headway.errors import DataError, UsageError
from headway.files import parse_json

ENDINGS = (".tsv", ".tab", ".csv", ".jsonl")
LARGEST = 1e18  # magnitude of a number to learn; its square still fits into 32 bits
Row = tuple[int, dict[str, object]]  # line, and its values by name


def check_table(path: Path) -> None:
    """UsageError unless the file is there and has one of the endings."""
    check_file(path, ENDINGS, "rows of texts")


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[Row]:
    """(line, values by name) of every row; empty lines are left out.

    Tabs end the cells of a .tsv file, and quotes are letters there; those of a .csv file may be
    quoted, and then hold commas and ends of line. columns: names that the first line of a table
    must hold, each with the flag that says it; in a .jsonl file the objects need not hold them.

    UsageError for a missing file, an ending that is none of these, or a column that is not there;
    DataError with file and line for a row with more or fewer cells than the header, and for what
    is no JSON.
    """
    check_table(path)
    if ending(path) == ".jsonl":
        yield from _objects(path)
        return
    header: list[str] | None = None
    for number, cells in _commas(path) if ending(path) == ".csv" else _tabs(path):
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(header, columns, place(path, number))
        elif len(cells) != len(header):
            what = f"the row has {len(cells)} cells, the first line {len(header)}"
            raise DataError(what, place(path, number))
        else:
            yield number, dict(zip(header, cells, strict=True))


def _check_header(header: list[str], columns: Mapping[str, str], where: str) -> None:
    for name, flag in columns.items():
        if header.count(name) != 1:
            many = "no column" if name not in header else "more than one column"
            raise UsageError(
                f"{many} {name!r} in the first line, which holds {', '.join(header)[:200]}",
                where,
                f"{flag} NAME says which it is",
            )


def text_of(row: Mapping[str, object], name: str, where: str) -> str:
    """What stands there, blanks around it removed. DataError if it is empty or no text."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        what = "empty" if isinstance(value, str) else "no text"
        raise DataError(f"{name!r} is {what}", where, "fill it in, or delete the row")
    return value.strip()


def number_of(value: object, name: str, where: str) -> float:
    """The number in a cell. DataError for what is none, not finite, or beyond -1e18 to 1e18.

    name: what the cell holds, in the error.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    except OverflowError:  # an integer of JSON has any number of digits
        number = math.inf
    if math.isnan(number):
        raise DataError(
            f"{name} {str(value)[:60]!r} is no number", where, "fill it in, or delete the row"
        )
    if abs(number) > LARGEST:
        raise DataError(
            f"{name} {str(value)[:60]!r} is outside the range from {-LARGEST:g} to {LARGEST:g}",
            where,
            "write it in another unit, or delete the row",
        )
    return number


def _tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, line.split("\t")


def _commas(path: Path) -> Iterator[tuple[int, list[str]]]:
    """A row's number is that of its last line."""
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", place(path, reader.line_num)) from error


def _objects(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        row = parse_json(line.encode(), place(path, number))
        if not isinstance(row, dict):
            raise DataError("not a JSON object", place(path, number))
        yield number, row
