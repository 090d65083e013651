"""Reads labelled images from .parquet files in the format of Hugging Face data sets.

The column image or img has the bytes of an image file, or a record whose field `bytes` has them.
The column label or labels has class names, or class numbers whose names are in the metadata of the
file.
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
from headway.files import check_plain, parse_json

ENDING = ".parquet"
BYTES_LIMIT = 8 * 2**30  # of a file's columns, unpacked
IMAGES, LABELS = ("image", "img"), ("label", "labels")
NOTES = b"huggingface"  # metadata key whose value has the names of the classes


def read_parquet(source: Path) -> LabelledImages:
    """Return the images of a file.

    The name of the file sets the split: train-..., validation-... or test-...; otherwise train.
    Raises UsageError if pyarrow is not installed; DataError with the file and the row.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "reading .parquet files needs the package pyarrow, which is not installed",
            str(source),
            "pip install 'headway[parquet]'",
        ) from None
    where = str(source)
    try:
        check_plain(source)
        file = parquet.ParquetFile(source)
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        size, rows = sum(group.total_byte_size for group in groups), file.metadata.num_rows
        if size > BYTES_LIMIT or rows > MEMBERS_LIMIT:
            raise DataError(
                f"the file has {rows:,} rows of {size:,} bytes in all, but at most "
                f"{MEMBERS_LIMIT:,} rows and {BYTES_LIMIT:,} bytes are allowed",
                where,
                "split it into several files",
            )
        names = file.schema_arrow.names
        image, label = _column(names, IMAGES, where), _column(names, LABELS, where)
        table = file.read(columns=[image, label])
        metadata = (file.schema_arrow.metadata or {}).get(NOTES)
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the file cannot be read as parquet: {error}", where, "copy or download it again"
        ) from error
    image_column, labels = table.column(image), table.column(label).to_pylist()
    texts = _texts(labels, _names(metadata, label, where), where)
    images = LabelledImages()
    getattr(images, _split(source)).extend(
        LabelledImage(text, f"{where}[{i}]", partial(_bytes, image_column, i, f"{where}[{i}]"))
        for i, text in enumerate(texts)
    )
    return images


def _split(source: Path) -> str:
    return SPLITS.get(source.name.split("-")[0].split(".")[0], TRAIN)


def _column(names: Sequence[str], accepted: Sequence[str], where: str) -> str:
    matches = [name for name in accepted if name in names]
    if len(matches) != 1:
        raise DataError(
            f"exactly one column must be named {' or '.join(accepted)}, but the columns are "
            f"{', '.join(names[:20]) or 'none'}",
            where,
            "rename the column",
        )
    return matches[0]


def _names(metadata: bytes | None, label: str, where: str) -> list[str] | None:
    """Return the names of the classes in order, or None if the metadata does not have them."""
    value: Any = None if metadata is None else parse_json(metadata, where)
    for key in ("info", "features", label, "names"):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise DataError(
            "the class names in the metadata must be a list of texts, but are not",
            where,
            "write the file again",
        )
    if len(set(value)) < len(value):
        raise DataError(
            "the class names in the metadata must be distinct, but two are equal",
            where,
            "rename a class",
        )
    return value


def _texts(labels: Sequence[Any], names: list[str] | None, where: str) -> list[str]:
    texts = []
    for i, label in enumerate(labels):
        if isinstance(label, str):
            texts.append(label)
        elif type(label) is not int:
            raise DataError(
                f"a label must be a name or a whole number, but this one is {str(label)[:60]!r}",
                f"{where}[{i}]",
                "correct it, or delete the row",
            )
        else:
            texts.append(class_name(label, names, f"{where}[{i}]"))
    return texts


def _bytes(image_column: Any, index: int, where: str) -> bytes:
    """Return the bytes of the image file in row `index`."""
    value = image_column[index].as_py()
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise DataError(
            "the row must have the bytes of an image file, but has none",
            where,
            "store the encoded image (.png, .jpg or .webp), or delete the row",
        )
    return data
