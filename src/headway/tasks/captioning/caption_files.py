"""Reads images with captions from a table that names image files, or from a table and an array of
images with one image per row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.arrays import read_unlabelled_images
from headway.data.formats.images import ImageFiles, LabelledImage
from headway.data.formats.lines import location
from headway.data.formats.split_files import SPLITS, TRAIN
from headway.data.images import BYTES_LIMIT, image_file
from headway.data.rows import Row, read_rows

SPLIT = "split"  # default name of the column of splits
Captions = Mapping[str, tuple[str, ...]]
"""Language -> the captions in that language."""


@dataclass(frozen=True, kw_only=True)
class CaptionColumns:
    """Names of columns.

    text: columns of captions, one per language; the column name is the language. image: column of
    image paths, relative to the folder of the table. split: column with train, valid or test; a
    column with the default name `SPLIT` is optional.
    """

    text: tuple[str, ...]
    image: str = "image"
    split: str | None = SPLIT


@dataclass(frozen=True)
class CaptionedImage:
    """An image with captions in at least one language, and its split (train, valid or test; "" if
    the table has no splits)."""

    image: LabelledImage
    captions: Captions
    split: str


def read_captions(
    path: Path,
    columns: CaptionColumns,
    images: Path | None = None,
    bad_rows: BadRows = NONE_LEFT_OUT,
) -> list[CaptionedImage]:
    """Return the images of a table (.tsv, .csv, .jsonl, plain or .gz) with their captions, in
    order.

    images: an .npz file whose array `images` has one image for each row. If None, the column
    `columns.image` names image files, and all rows with the same file are captions of one image.
    A value in a .jsonl file may be a list of captions. bad_rows: the policy for rows that are
    invalid; a row that is left out takes its image along. Raises UsageError for a missing column;
    DataError with file and line for a missing image, a row without a caption, an unknown split, or
    different numbers of rows and images.
    """
    flags = {column: "--data.text" for column in columns.text}
    if images is None:
        flags[columns.image] = "--data.image"
    if columns.split not in (None, SPLIT):
        flags[str(columns.split)] = "--data.split-column"
    if images is not None:  # of which each row has one, so none may be missing
        return _beside(path, columns, list(read_rows(path, flags)), images, bad_rows)
    return list(_by_path(columns, read_rows(path, flags, bad_rows), bad_rows))


def _beside(
    path: Path,
    columns: CaptionColumns,
    rows: Sequence[Row],
    images: Path,
    bad_rows: BadRows,
) -> list[CaptionedImage]:
    labelled = read_unlabelled_images(images)
    if len(rows) != len(labelled):
        extra = rows[len(labelled) :] or rows[-1:]
        raise DataError(
            f"the table has {len(rows):,} rows, but {images} has {len(labelled):,} images",
            extra[0].where if extra else location(path, 1),
            "give one row for each image, in the same order",
        )

    def captioned(pair: tuple[Row, LabelledImage]) -> CaptionedImage:
        row, image = pair
        return CaptionedImage(image, _texts(row, columns), _split(row, columns))

    return list(bad_rows.parsed(zip(rows, labelled, strict=True), captioned))


@dataclass(frozen=True)
class _CaptionRow:
    """The captions of one row for an image file."""

    file: Path
    captions: Captions
    split: str
    where: str


def _by_path(
    columns: CaptionColumns, rows: Iterable[Row], bad_rows: BadRows
) -> Iterator[CaptionedImage]:
    """Yield one image per file, in the order of the first rows, with the captions of all rows."""

    def parsed(row: Row) -> _CaptionRow:
        file = image_file(
            row.path.parent,
            row.values.get(columns.image),
            repr(columns.image),
            row.where,
            "enter a path, or name the column of the paths with --data.image",
        )
        split = _split(row, columns)
        return _CaptionRow(file, _texts(row, columns), split, row.where)

    texts_by_file: dict[Path, dict[str, tuple[str, ...]]] = {}
    splits: dict[Path, str] = {}
    for row in bad_rows.parsed(rows, parsed):
        file, split = row.file, row.split
        if splits.setdefault(file, split) != split:
            raise DataError(
                f"{file} is in the split {split or '(none)'} here, but in "
                f"{splits[file] or '(none)'} in an earlier row",
                row.where,
                "write the same split in all rows of an image",
            )
        captions_of_file = texts_by_file.setdefault(file, {})
        for language, texts_of_row in row.captions.items():
            captions_of_file[language] = (*captions_of_file.get(language, ()), *texts_of_row)
    files = ImageFiles()
    for file, captions in texts_by_file.items():
        read = partial(read_bytes, file, BYTES_LIMIT)
        image = LabelledImage("", str(file), partial(files.read, str(file), read))
        yield CaptionedImage(image, captions, splits[file])


def _texts(row: Row, columns: CaptionColumns) -> Captions:
    """Return the captions of a row by language, with each run of whitespace as one space."""
    captions = {}
    for language in columns.text:
        value = row.values.get(language) or ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or not all(isinstance(t, str) for t in values):
            raise DataError(
                f"the value of {language!r} is not a text or a list of texts",
                row.where,
                "write the caption as a string",
            )
        texts = tuple(" ".join(text.split()) for text in values if text.strip())
        if texts:
            captions[language] = texts
    if not captions:
        raise DataError(
            f"the row has no caption in {', '.join(columns.text)}",
            row.where,
            "write a caption, or delete the row",
        )
    return captions


def _split(row: Row, columns: CaptionColumns) -> str:
    if columns.split is None or (columns.split == SPLIT and SPLIT not in row.values):
        return ""
    value = row.values.get(columns.split)
    if not isinstance(value, str) or value.strip().lower() not in SPLITS:
        raise DataError(
            f"{columns.split} must be one of {', '.join(SPLITS)}, but is {str(value)[:80]}",
            row.where,
            "correct it, or set --data.split-column none if the column is not a split",
        )
    return SPLITS[value.strip().lower()]


def split_of(images: Sequence[CaptionedImage], name: str) -> list[CaptionedImage]:
    """Return the images of one split; images without a split belong to the training split."""
    return [image for image in images if (image.split or TRAIN) == name]
