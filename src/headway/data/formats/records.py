"""Reads records, whose values have names: .jsonl, .json and .parquet files, plain or .gz."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.errors import DataError, UsageError
from headway.base.files import check_plain, parse_json
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import ending, location, read_lines

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

PARQUET = ".parquet"
LINES = (".jsonl", ".ndjson")
ENDINGS = (*LINES, ".json", PARQUET)
LINE_LIMIT = 64 * 2**20
"""Maximum length of a line of a .jsonl file in bytes; it may be a whole document, even a book."""
FILE_LIMIT = 512 * 2**20
"""Maximum length of a line of a .json file in bytes, which is often the whole file."""
BATCH = 512  # rows of a Parquet file in memory at once
ROWS_LIMIT = 100_000_000
BYTES_LIMIT = 64 * 2**30  # of the columns of a Parquet file, unpacked
METADATA = b"huggingface"  # key of the schema's metadata with the types of the columns
Record = tuple[int, dict[str, object]]  # line or row number, values by name
_DATA = "data"  # key of the list of records, if a .json file is an object


def read_records(path: Path, bad_rows: BadRows) -> Iterator[Record]:
    """Yield (number, values by name) for each record of a file, whose name ends in `ENDINGS`.

    A line of a .jsonl file is a JSON object. A .json file has such lines, or it is a list of
    objects, an object whose `data` is that list, or one object. Numbers that are not finite may be
    in values that are not used, and become float. A Parquet file has rows, and columns of class
    numbers become class names (`parquet_rows`). bad_rows: the policy for records that are invalid.

    Raises DataError with file and line or row for a record that is invalid.
    """
    if ending(path) == PARQUET:
        yield from parquet_rows(path)
        return
    is_json = ending(path) == ".json"
    first, lines = begun(read_lines(path, FILE_LIMIT if is_json else LINE_LIMIT))
    if is_json and _is_whole(first):
        content = parse_json("\n".join(lines).encode(), str(path), only_finite=False)
        if isinstance(content, dict):
            content = content[_DATA] if isinstance(content.get(_DATA), list) else [content]
        yield from bad_rows.parsed(enumerate(content, start=1), partial(_listed, path))
    else:
        filled = (pair for pair in enumerate(lines, start=1) if pair[1].strip())
        yield from bad_rows.parsed(filled, partial(_parsed, path))


def _is_whole(first: str) -> bool:
    """Return whether a .json file with this first line is one JSON value, without a record in each
    line."""
    if first.lstrip().startswith("["):
        return True
    try:
        record = parse_json(first.encode(), "", only_finite=False)
    except DataError:  # an object of several lines, or a line that is not valid
        return first.strip() == "{"
    return isinstance(record, dict) and isinstance(record.get(_DATA), list)


def begun(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, and all lines, from the first one on.

    Without such a line, the first is a blank one, or empty.
    """
    head: list[str] = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    return head[-1] if head else "", chain(head, lines)


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
        hint = 'write each record as {"name": value, ...}'
        if isinstance(row, list):
            hint += "; a file that is one list of records is named .json"
        kind = "a list" if isinstance(row, list) else "another JSON value"
        raise DataError(f"the record must be a JSON object, but it is {kind}", where, hint)
    return row


def parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (number from 1, values by name) of each row of a Parquet file.

    Class numbers, also in lists, become the class names of the metadata; -1, which marks an unknown
    class, becomes None. Bytes in UTF-8 become texts.

    Raises UsageError if pyarrow is not installed; DataError with the file, and the row if one is
    invalid.
    """
    number = 0
    with open_parquet(path, ROWS_LIMIT, BYTES_LIMIT) as file:
        types = column_types(file, str(path))
        for batch in file.iter_batches(BATCH):
            for row in batch.to_pylist():
                number += 1
                where = location(path, number)
                yield (
                    number,
                    {
                        name: _value(value, types.get(name), name, where)
                        for name, value in row.items()
                    },
                )


@contextmanager
def open_parquet(path: Path, rows_limit: int, bytes_limit: int) -> Iterator[ParquetFile]:
    """Open a Parquet file with limits on the number of its rows and bytes, unpacked.

    Raises UsageError if pyarrow is not installed. DataError with the file if it is larger, or, in
    the whole block, for what cannot be read.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "reading .parquet files needs the package pyarrow, which is not installed",
            str(path),
            "pip install 'headway[parquet]'",
        ) from None
    try:
        check_plain(path)
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            size, rows = sum(group.total_byte_size for group in groups), file.metadata.num_rows
            if size > bytes_limit or rows > rows_limit:
                raise DataError(
                    f"the file has {rows:,} rows of {size:,} bytes in all, but at most "
                    f"{rows_limit:,} rows and {bytes_limit:,} bytes are allowed",
                    str(path),
                    "split it into several files",
                )
            yield file
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the file cannot be read as parquet: {error}",
            str(path),
            "copy or download it again",
        ) from error


def column_types(file: ParquetFile, where: str) -> dict[str, Any]:
    """Return the types of columns by name, as far as the metadata of Hugging Face declare them."""
    metadata = file.schema_arrow.metadata or {}
    value: Any = parse_json(metadata[METADATA], where) if METADATA in metadata else None
    for key in ("info", "features"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _value(value: Any, feature: Any, name: str, where: str) -> Any:
    """Return a value with class names in the place of class numbers, and texts for bytes.

    feature: the type of the column in the metadata; lists have that of their values.
    """
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else inner
        return [_value(item, inner, name, where) for item in value]
    if isinstance(value, dict):
        fields = feature.get("feature", feature) if isinstance(feature, dict) else {}
        return {
            key: _value(item, fields.get(key) if isinstance(fields, dict) else None, key, where)
            for key, item in value.items()
        }
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    names = feature.get("names") if isinstance(feature, dict) else None
    if type(value) is int and isinstance(names, list):
        return _class_name(value, names, name, where)
    return value


def _class_name(number: int, names: list[Any], column: str, where: str) -> str | None:
    if number == -1:
        return None
    class_name = names[number] if 0 <= number < len(names) else None
    if not isinstance(class_name, str):
        raise DataError(
            f"class number {number} of {column!r} has no name: the file names {len(names):,} "
            "classes",
            where,
            f"number the classes from 0 to {len(names) - 1}, or name the other classes too",
        )
    return class_name
