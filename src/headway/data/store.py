"""Prepared data on disk: folders of arrays that every run that uses them maps into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.folders import verify_folder


def verify_corpus(folder: Path) -> None:
    """Check prepared data. Raises DataError with the first file that is missing or has changed."""
    verify_folder(folder, f"delete {folder}; training prepares it again from the source")


def mapped_numbers(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Map a file of `count` numbers. Raises DataError if it is missing or has another size."""
    if not path.is_file():
        raise DataError("the file is missing", where=str(path), hint="prepare the data again")
    size = path.stat().st_size
    if size != count * dtype.itemsize:
        raise DataError(
            f"the file must have {count * dtype.itemsize:,} bytes ({count:,} numbers of "
            f"{dtype.itemsize} bytes), but has {size:,}",
            where=str(path),
            hint="prepare the data again",
        )
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,))
