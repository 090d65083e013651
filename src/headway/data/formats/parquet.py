"""Pictures with a class each in .parquet files, as Hugging Face's data sets are kept.

A column image or img: the bytes of a picture file, alone or as the part `bytes` of a record; a
column label or labels: names, or numbers whose names stand in the file's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headway.data.formats.images import (
    MEMBERS_LIMIT,
    SPLITS,
    TRAIN,
    LabelledImage,
    LabelledImages,
    class_name,
)
from headway.errors import DataError, UsageError
from headway.files import parse_json

ENDING = ".parquet"
BYTES_LIMIT = 8 * 2**30  # of a file's columns, unpacked
IMAGES, LABELS = ("image", "img"), ("label", "labels")
NOTES = b"huggingface"  # where the names of classes stand in the file


def read_parquet(source: Path) -> LabelledImages:
    """The pictures of a file; it is called train-..., validation-... or test-... where it is one of
    these parts. UsageError without pyarrow; DataError names the file, and the row."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "files of this kind are read by pyarrow, which is not installed",
            str(source),
            "pip install 'headway[parquet]'",
        ) from None
    where = str(source)
    try:
        file = parquet.ParquetFile(source)
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        size, rows = sum(group.total_byte_size for group in groups), file.metadata.num_rows
        if size > BYTES_LIMIT or rows > MEMBERS_LIMIT:
            raise DataError(f"{rows:,} rows of {size:,} bytes are too many", where)
        names = file.schema_arrow.names
        image, label = _column(names, IMAGES, where), _column(names, LABELS, where)
        table = file.read(columns=[image, label])
        known = (file.schema_arrow.metadata or {}).get(NOTES)
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not a parquet file that can be read: {error}", where) from error
    pictures, labels = table.column(image), table.column(label).to_pylist()
    texts = _texts(labels, _names(known, label, where), where)
    found = LabelledImages()
    getattr(found, _split(source)).extend(
        LabelledImage(text, f"{where}[{i}]", partial(_bytes, pictures, i, f"{where}[{i}]"))
        for i, text in enumerate(texts)
    )
    return found


def _split(source: Path) -> str:
    return SPLITS.get(source.name.split("-")[0].split(".")[0], TRAIN)


def _column(names: Sequence[str], wanted: Sequence[str], where: str) -> str:
    found = [name for name in wanted if name in names]
    if len(found) != 1:
        raise DataError(
            f"one column must be called {' or '.join(wanted)}",
            where,
            f"it has {', '.join(names[:20]) or 'none'}",
        )
    return found[0]


def _names(notes: bytes | None, label: str, where: str) -> list[str] | None:
    """Of the classes, in order; None where the file says nothing of them."""
    told: Any = None if notes is None else parse_json(notes, where)
    for key in ("info", "features", label, "names"):
        told = told.get(key) if isinstance(told, dict) else None
    if told is None:
        return None
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise DataError("the names of its classes are no texts", where)
    if len(set(told)) < len(told):
        raise DataError("two classes have one name", where)
    return told


def _texts(labels: Sequence[Any], names: list[str] | None, where: str) -> list[str]:
    texts = []
    for i, label in enumerate(labels):
        if isinstance(label, str):
            texts.append(label)
        elif type(label) is not int:
            raise DataError("a label is a name or a whole number", f"{where}[{i}]")
        else:
            texts.append(class_name(label, names, f"{where}[{i}]"))
    return texts


def _bytes(pictures: Any, index: int, where: str) -> bytes:
    """The file of one picture."""
    value = pictures[index].as_py()
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise DataError("there is no picture", where, "the bytes of a picture file")
    return data
