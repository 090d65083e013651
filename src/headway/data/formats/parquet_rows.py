"""Reads the rows of .parquet files, with the class names of Hugging Face data sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.base.files import check_plain, parse_json
from headway.data.formats.lines import location

PARQUET = ".parquet"
BATCH = 512  # rows in memory at once
ROWS_LIMIT = 100_000_000
BYTES_LIMIT = 64 * 2**30  # of the columns, unpacked
METADATA = b"huggingface"  # key of the schema's metadata with the types of the columns


def parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (number from 1, values by name) of each row of a Parquet file.

    Class numbers, also in lists, become the class names of the metadata; -1, which marks an unknown
    class, becomes None. Bytes in UTF-8 become texts.

    Raises UsageError if pyarrow is not installed; DataError with the file, and the row if one is
    invalid.
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
    number = 0
    try:
        check_plain(path)
        with parquet.ParquetFile(path) as file:
            _check_size(file.metadata, path)
            features = _features(file.schema_arrow.metadata or {}, path)
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    where = location(path, number)
                    yield (
                        number,
                        {
                            name: _value(value, features.get(name), name, where)
                            for name, value in row.items()
                        },
                    )
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the file cannot be read as parquet: {error}",
            str(path),
            "copy or download it again",
        ) from error


def _check_size(metadata: Any, path: Path) -> None:
    """Raise DataError for a file that expands to more than is allowed."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    size, rows = sum(group.total_byte_size for group in groups), metadata.num_rows
    if size > BYTES_LIMIT or rows > ROWS_LIMIT:
        raise DataError(
            f"the file has {rows:,} rows of {size:,} bytes in all, but at most {ROWS_LIMIT:,} rows "
            f"and {BYTES_LIMIT:,} bytes are allowed",
            str(path),
            "split it into several files",
        )


def _features(metadata: Any, path: Path) -> dict[str, Any]:
    """Return the types of columns by name, as far as the metadata declares them."""
    value: Any = parse_json(metadata[METADATA], str(path)) if METADATA in metadata else None
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
