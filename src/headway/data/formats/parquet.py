"""Reads labelled images from .parquet files, as those of the Hugging Face hub.

A column of images has the bytes of an image file, the path of one relative to the folder of the
.parquet file, or a record with both, `bytes` and `path`. A column of labels has class names, class
numbers whose names are in the metadata of the file, or Booleans.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any, Literal

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.data.formats.images import (
    MEMBERS_LIMIT,
    ImageFiles,
    LabelledImage,
    LabelledImages,
    label_name,
)
from headway.data.formats.records import column_types, open_parquet
from headway.data.formats.split_files import TRAIN, shard_of
from headway.data.images import BYTES_LIMIT as IMAGE_LIMIT

BYTES_LIMIT = 8 * 2**30  # of a file's columns, unpacked
USUAL = {
    "image": (("image", "img"), ("images", "pixel_values", "picture", "photo", "audio")),
    "label": (
        ("label", "labels"),
        ("cls", "class", "fine_label", "coarse_label", "target", "category"),
    ),
}
"""Usual names of the column of images, and of that of labels; those of the second group count if
there is none of the first."""


@dataclass(frozen=True, kw_only=True)
class ImageColumns:
    """Names of the columns of a .parquet file.

    image, label: the column of the images, and that of the labels; None: the one that has a usual
    name (`USUAL`), or else whose type shows it. flags: the beginning of the flags that
    name them, for messages; "" if there are none.
    """

    image: str | None = None
    label: str | None = None
    flags: str = ""


BY_NAME = ImageColumns()


def read_parquet(source: Path, columns: ImageColumns = BY_NAME) -> LabelledImages:
    """Return the images of a file.

    The name of the file sets the split: train-..., validation-... or test-...; otherwise train.
    Raises UsageError if pyarrow is not installed; DataError with the file and the row, and for
    columns that are missing or ambiguous.
    """
    where = str(source)
    with open_parquet(source, MEMBERS_LIMIT, BYTES_LIMIT) as file:
        schema, types = file.schema_arrow, column_types(file, where)
        with_bytes = [field.name for field in schema if _may_have_images(field.type)]
        with_classes = [name for name in schema.names if _has_classes(types.get(name))]
        image = _column("image", schema.names, with_bytes, columns, where)
        label = _column("label", schema.names, with_classes, columns, where)
        table = file.read(columns=[image, label])
    image_column, names = table.column(image), _names(types, label, where)
    images, files, shard = LabelledImages(), ImageFiles(), shard_of(source)
    for i, value in enumerate(table.column(label).to_pylist()):
        row = f"{where}[{i}]"
        data = partial(_bytes, image_column, i, source.parent, files, row)
        labelled = LabelledImage(label_name(value, names, f"{row}, column {label!r}"), row, data)
        getattr(images, TRAIN if shard is None else shard.split).append(labelled)
    return images


def _column(
    role: Literal["image", "label"],
    names: Sequence[str],
    others: Sequence[str],
    columns: ImageColumns,
    where: str,
) -> str:
    """Return the name of the column with this role: the requested one, the only one with a usual
    name, or the only one of `others`, whose types or metadata show what they are.

    names: of all columns. Raises DataError if there is none, or several.
    """
    requested = columns.image if role == "image" else columns.label
    existing = f"the columns are {', '.join(names[:20]) or 'none'}"
    hint = f"{columns.flags}{role} NAME" if columns.flags else f"rename the column to {role}"
    if requested is not None:
        if requested in names:
            return requested
        raise DataError(f"there is no column {requested!r}; {existing}", where, hint)
    for group in (*USUAL[role], others):
        matches = [name for name in group if name in names]
        if len(matches) == 1:
            return matches[0]
        if matches:
            what = f"the column of {role}s may be {' or '.join(matches)}; {existing}"
            raise DataError(what, where, hint)
    raise DataError(f"no column of {role}s was found; {existing}", where, hint)


def _may_have_images(kind: Any) -> bool:
    """Return whether values of an Arrow type are bytes, or records with bytes."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(field.name == "bytes" for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _has_classes(feature: Any) -> bool:
    """Return whether a column has class numbers, by its description."""
    return isinstance(feature, dict) and "names" in feature


def _names(types: dict[str, Any], label: str, where: str) -> list[str] | None:
    """Return the names of the classes in order, or None if the metadata does not have them."""
    value = types[label]["names"] if _has_classes(types.get(label)) else None
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


def _bytes(image_column: Any, index: int, folder: Path, files: ImageFiles, where: str) -> bytes:
    """Return the bytes of the image file in row `index`. folder: that paths are relative to."""
    value = image_column[index].as_py()
    data, name = value, value
    if isinstance(value, dict):
        data, name = value.get("bytes"), value.get("path")
    if isinstance(data, bytes):
        return data
    if isinstance(name, str) and name:
        path = _inside(folder, name, where)
        return files.read(name, partial(read_bytes, path, IMAGE_LIMIT))
    found = "neither" if value is None or isinstance(value, dict) else f"a {type(value).__name__}"
    raise DataError(
        f"the row must have the bytes of an image file, or its path, but has {found}",
        where,
        "store the encoded image (.png, .jpg or .webp), or delete the row",
    )


def _inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file in the folder. Raises DataError for one elsewhere: a data set may
    not read other files of the machine."""
    path, parts = folder / name, PureWindowsPath(name)  # of both kinds of separators
    try:
        is_inside = (
            not parts.anchor
            and ".." not in parts.parts
            and path.resolve().is_relative_to(folder.resolve())
        )
        exists = is_inside and path.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or links in a circle
        is_inside, exists = True, False
    if exists:
        return path
    reason = (
        f"no such image file in the folder of the .parquet file: {name[:200]!r}"
        if is_inside
        else f"the path {name[:200]!r} leads out of the folder of the .parquet file"
    )
    raise DataError(
        reason, where, "use paths relative to that folder, or store the bytes of the images"
    )
