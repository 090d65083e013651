"""Reads labelled images from folders, files and collections."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from headway.base.errors import DataError, UsageError
from headway.base.files import not_a_file
from headway.data.formats.arrays import read_arrays
from headway.data.formats.images import LabelledImage, LabelledImages, read_folder, read_zip
from headway.data.formats.lines import read_lines
from headway.data.formats.parquet import BY_NAME, ImageColumns, read_parquet
from headway.data.formats.records import PARQUET
from headway.data.formats.split_files import data_folder
from headway.data.images import Pixels

READERS: dict[str, Callable[[Path], LabelledImages]] = {
    ".zip": read_zip,
    ".npz": read_arrays,
    PARQUET: read_parquet,
}
_SIDE, _BRIGHTEST = 8, 16


def digits() -> LabelledImages:
    """Return 1,797 images of handwritten digits, 8 x 8 pixels, from the files of scikit-learn.

    The package is not imported. The images are the test set of UCI's Optical Recognition of
    Handwritten Digits. Raises UsageError if the package is not installed.
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the collection digits is in the package scikit-learn, which is not installed",
            hint="pip install scikit-learn",
        )
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    images = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split(",")
        if len(cells) != _SIDE**2 + 1:
            raise DataError(
                f"the line must have {_SIDE**2 + 1} numbers, but has {len(cells)}",
                f"{path}:{number}",
                "reinstall scikit-learn",
            )
        *pixels, label = (round(float(cell)) for cell in cells)
        bright = np.rint(np.array(pixels) * (255 / _BRIGHTEST)).astype(np.uint8)
        image = bright.reshape(_SIDE, _SIDE, 1)
        images.append(LabelledImage(str(label), f"{path}:{number}", partial(_stored_pixels, image)))
    return LabelledImages(images)


def _stored_pixels(pixels: Pixels) -> Pixels:
    return pixels


COLLECTIONS: dict[str, Callable[[], LabelledImages]] = {"digits": digits}
"""Images in installed packages, by collection name."""


def check_source(source: str) -> None:
    """Raise UsageError unless the source exists and is a folder, a collection or a known file
    format."""
    path = Path(source)
    if source in COLLECTIONS and not path.exists():
        return
    if not (path.is_file() or path.is_dir()):
        raise UsageError(
            "no such file or folder" if not path.exists() else not_a_file(path),
            source,
            f"give a path, or one of the collections: {', '.join(COLLECTIONS)}",
        )
    if path.is_file() and path.suffix.lower() not in READERS:
        *endings, last_ending = READERS
        raise UsageError(
            "labelled images are read from folders, or from files that end in "
            f"{', '.join(endings)} or {last_ending}, but this name "
            f"{f'ends in {path.suffix}' if path.suffix else 'has no suffix'}",
            source,
            "give a folder with one folder of images for each class",
        )


def read_images(sources: Sequence[str], columns: ImageColumns = BY_NAME) -> LabelledImages:
    """Return the images of all sources, in order.

    columns: those of .parquet files. Raises UsageError for a missing source, DataError for a
    damaged one.
    """
    images = LabelledImages()
    for source in sources:
        check_source(source)
        path = Path(source)
        if tables := parquet_files(path):
            for table in tables:
                images.extend(read_parquet(table, columns))
        elif path.is_dir():
            images.extend(read_folder(path))
        elif path.is_file():
            images.extend(READERS[path.suffix.lower()](path))
        else:
            images.extend(COLLECTIONS[source]())
    return images


def parquet_files(path: Path) -> list[Path]:
    """Return a .parquet file, or those in a folder (`data_folder`), sorted; none for another
    source."""
    if path.is_dir():
        return sorted(data_folder(path).glob(f"*{PARQUET}"))
    return [path] if path.is_file() and path.suffix.lower() == PARQUET else []
