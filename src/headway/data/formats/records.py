"""Reads records, whose values have names: .jsonl, .json and .parquet files, plain or .gz."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import parse_json
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.csv_rows import CELL_LIMIT
from headway.data.formats.lines import ending, location, read_lines
from headway.data.formats.parquet_rows import PARQUET, parquet_rows

ENDINGS = (".jsonl", ".ndjson", ".json", PARQUET)
FILE_LIMIT = 512 * 2**20  # bytes of a line of a .json file, which is often the whole file
Record = tuple[int, dict[str, object]]  # line or row number, values by name


def read_records(
    path: Path, longest: int = CELL_LIMIT, bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[Record]:
    """Yield (number, values by name) for each record of a file, whose name ends in `ENDINGS`.

    A line of a .jsonl file is a JSON object. A .json file is a list of objects, or has such lines.
    Numbers that are not finite may be in values that are not used, and become float. A Parquet file
    has rows, and columns of class numbers become class names (`parquet_rows`). longest: maximum
    number of bytes of a line. bad_rows: the policy for records that are invalid.

    Raises DataError with file and line or row for a record that is invalid.
    """
    if ending(path) == PARQUET:
        yield from parquet_rows(path)
        return
    if ending(path) == ".json" and is_list(path):
        content = "\n".join(read_lines(path, FILE_LIMIT)).encode()
        rows = enumerate(parse_json(content, str(path), only_finite=False), start=1)
        yield from bad_rows.parsed(rows, partial(_listed, path))
    else:
        lines = enumerate(read_lines(path, longest), start=1)
        filled = ((number, line) for number, line in lines if line.strip())
        yield from bad_rows.parsed(filled, partial(_parsed, path))


def is_list(path: Path) -> bool:
    """Return whether a .json file begins with a list."""
    first = next((line for line in read_lines(path, FILE_LIMIT) if line.strip()), "")
    return first.lstrip().startswith("[")


def _listed(path: Path, numbered: tuple[int, object]) -> Record:
    """Return an entry of a list as a record."""
    number, row = numbered
    return number, _object(row, f"{path}, record {number}")


def _parsed(path: Path, numbered: tuple[int, str]) -> Record:
    """Return the record of a line."""
    number, line = numbered
    where = location(path, number)
    try:
        row = parse_json(line.encode(), where, only_finite=False)
    except DataError as error:
        raise DataError(
            error.what,
            where,
            'write each record as {"name": value, ...} on one line'
            + (", or all in a list: [...]" if ending(path) == ".json" else ""),
        ) from error
    return number, _object(row, where)


def _object(row: object, where: str) -> dict[str, object]:
    if not isinstance(row, dict):
        raise DataError(
            "the record must be a JSON object, but it is another JSON value",
            where,
            'write each record as {"name": value, ...}',
        )
    return row


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
