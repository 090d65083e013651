"""Pictures to learn from, by what a person names: a folder, a file, or a collection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from headway.data.formats.arrays import read_arrays
from headway.data.formats.images import LabelledImage, LabelledImages, read_folder, read_zip
from headway.data.formats.lines import read_lines
from headway.data.formats.parquet import ENDING, read_parquet
from headway.data.images import Pixels
from headway.errors import DataError, UsageError

READERS: dict[str, Callable[[Path], LabelledImages]] = {
    ".zip": read_zip,
    ".npz": read_arrays,
    ENDING: read_parquet,
}
_SIDE, _BRIGHTEST = 8, 16


def digits() -> LabelledImages:
    """1,797 handwritten digits of 8 x 8 pixels, from scikit-learn's files: nothing of it is run.

    UCI's Optical Recognition of Handwritten Digits, its test part. UsageError where the package is
    not installed.
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the digits stand in the package scikit-learn, which is not installed",
            hint="pip install scikit-learn",
        )
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    images = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split(",")
        if len(cells) != _SIDE**2 + 1:
            raise DataError(f"{len(cells)} numbers, not {_SIDE**2 + 1}", f"{path}:{number}")
        *pixels, label = (round(float(cell)) for cell in cells)
        bright = np.rint(np.array(pixels) * (255 / _BRIGHTEST)).astype(np.uint8)
        picture = bright.reshape(_SIDE, _SIDE, 1)
        images.append(LabelledImage(str(label), f"{path}:{number}", partial(_given, picture)))
    return LabelledImages(images)


def _given(pixels: Pixels) -> Pixels:
    return pixels


COLLECTIONS: dict[str, Callable[[], LabelledImages]] = {"digits": digits}
"""Pictures inside installed packages, by the name to ask for them."""


def check_source(source: str) -> None:
    """UsageError unless it is there and of a kind that is read."""
    path = Path(source)
    if source in COLLECTIONS and not path.exists():
        return
    if not path.exists():
        raise UsageError(
            "no such file or folder",
            source,
            f"a path, or one of the collections: {', '.join(COLLECTIONS)}",
        )
    if path.is_file() and path.suffix.lower() not in READERS:
        *others, last = READERS
        raise UsageError(
            f"{path.suffix or 'no ending'}: pictures with classes stand in folders, "
            f"{', '.join(others)} or {last}",
            source,
        )


def read_images(sources: Sequence[str]) -> LabelledImages:
    """All that the sources hold, in order. UsageError, DataError."""
    found = LabelledImages()
    for source in sources:
        check_source(source)
        path = Path(source)
        if source in COLLECTIONS and not path.exists():
            part = COLLECTIONS[source]()
        else:
            part = _folder(path) if path.is_dir() else READERS[path.suffix.lower()](path)
        found.extend(part)
    return found


def _folder(path: Path) -> LabelledImages:
    """A folder of .parquet files, or one of folders of pictures."""
    tables = sorted(path.glob(f"*{ENDING}"))
    if not tables:
        return read_folder(path)
    found = LabelledImages()
    for table in tables:
        found.extend(read_parquet(table))
    return found
