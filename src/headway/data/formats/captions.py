"""Pictures and what was said of them: a table that names picture files, or goes beside an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway.data.formats.arrays import read_pictures
from headway.data.formats.images import SPLITS, TRAIN, LabelledImage
from headway.data.formats.lines import place
from headway.data.formats.tables import read_rows
from headway.data.images import BYTES_LIMIT, is_image
from headway.errors import DataError
from headway.files import read_bytes

SPLIT = "split"  # what the column of splits is called where nobody says otherwise
Captions = Mapping[str, tuple[str, ...]]
"""Language -> what was said in it."""


@dataclass(frozen=True, kw_only=True)
class CaptionColumns:
    """Names of columns. text: one for each language, whose name it is. image: picture files, by
    paths from the table's folder. split: train, valid or test; one called `SPLIT` need not be
    there."""

    text: tuple[str, ...]
    image: str = "image"
    split: str | None = SPLIT


@dataclass(frozen=True)
class CaptionedImage:
    """A picture, what was said of it in one language at least, and which part of the data it
    belongs to (train, valid or test; "" where the table does not say)."""

    image: LabelledImage
    captions: Captions
    split: str


def read_captions(
    path: Path, columns: CaptionColumns, images: Path | None = None
) -> list[CaptionedImage]:
    """The pictures of a table (.tsv, .csv, .jsonl, plain or .gz) with their captions, in order.

    images: an .npz file whose array `images` has a picture for each row; without it `columns.image`
    names files, and rows of one file are captions of one picture. A .jsonl file may hold a list of
    captions. UsageError for a column that is not there; DataError with file and line for a picture
    that is missing, a row without any caption, an unknown split, or rows and pictures that differ
    in number.
    """
    named = {each: "--data.text" for each in columns.text}
    if images is None:
        named[columns.image] = "--data.image"
    if columns.split not in (None, SPLIT):
        named[str(columns.split)] = "--data.split-column"
    rows = list(read_rows(path, named))
    if images is not None:
        return _beside(path, columns, rows, images)
    return list(_by_path(path, columns, rows))


def _beside(
    path: Path,
    columns: CaptionColumns,
    rows: Sequence[tuple[int, dict[str, object]]],
    images: Path,
) -> list[CaptionedImage]:
    pictures = read_pictures(images)
    if len(rows) != len(pictures):
        first = rows[len(pictures)][0] if len(rows) > len(pictures) else rows[-1][0] if rows else 1
        raise DataError(
            f"the table has {len(rows):,} rows, and {images} {len(pictures):,} pictures",
            place(path, first),
            "row by row they must go together",
        )
    found = []
    for (number, row), picture in zip(rows, pictures, strict=True):
        where = place(path, number)
        found.append(
            CaptionedImage(picture, _texts(row, columns, where), _split(row, columns, where))
        )
    return found


def _by_path(
    path: Path, columns: CaptionColumns, rows: Sequence[tuple[int, dict[str, object]]]
) -> Iterator[CaptionedImage]:
    """One for each file, in the order of their first rows."""
    texts: dict[Path, dict[str, tuple[str, ...]]] = {}
    splits: dict[Path, str] = {}
    for number, row in rows:
        where = place(path, number)
        picture = _file(row, columns.image, path.parent, where)
        split = _split(row, columns, where)
        if splits.setdefault(picture, split) != split:
            raise DataError(
                f"{picture} is {splits[picture] or 'in no split'} in another row, and "
                f"{split or 'in none'} here",
                where,
            )
        known = texts.setdefault(picture, {})
        for language, more in _texts(row, columns, where).items():
            known[language] = (*known.get(language, ()), *more)
    for picture, captions in texts.items():
        image = LabelledImage("", str(picture), partial(read_bytes, picture, BYTES_LIMIT))
        yield CaptionedImage(image, captions, splits[picture])


def _file(row: Mapping[str, object], column: str, folder: Path, where: str) -> Path:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"{column!r} names no picture", where, "--data.image says which column does"
        )
    found = folder / value.strip()
    try:
        there = found.is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        there = False
    if not there:
        raise DataError(f"no such picture: {str(found)[:200]}", where, "paths go from the table on")
    if not is_image(found.name):
        raise DataError(f"{found.name} is no .png, .jpg or .webp", where)
    return found


def _texts(row: Mapping[str, object], columns: CaptionColumns, where: str) -> Captions:
    """Blanks of all kinds are one space."""
    found = {}
    for language in columns.text:
        value = row.get(language) or ()
        every = [value] if isinstance(value, str) else value
        if not isinstance(every, list | tuple) or not all(isinstance(t, str) for t in every):
            raise DataError(f"{language!r} is no text", where)
        texts = tuple(" ".join(text.split()) for text in every if text.strip())
        if texts:
            found[language] = texts
    if not found:
        raise DataError(f"there is no caption in {', '.join(columns.text)}", where)
    return found


def _split(row: Mapping[str, object], columns: CaptionColumns, where: str) -> str:
    if columns.split is None or (columns.split == SPLIT and SPLIT not in row):
        return ""
    value = row.get(columns.split)
    if not isinstance(value, str) or value.strip().lower() not in SPLITS:
        raise DataError(
            f"{columns.split}={str(value)[:80]}: must be one of {', '.join(SPLITS)}",
            where,
            "--data.split-column none if it means something else",
        )
    return SPLITS[value.strip().lower()]


def split_of(images: Sequence[CaptionedImage], name: str) -> list[CaptionedImage]:
    """Those of one split; what is in none is for training."""
    return [each for each in images if (each.split or TRAIN) == name]
