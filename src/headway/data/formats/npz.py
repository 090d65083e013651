"""Arrays out of .npz files of strangers: never objects, never more than the header says."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.errors import DataError

BYTES_LIMIT = 8 * 2**30  # of one array, unpacked
Array = npt.NDArray[Any]


class ArrayFile:
    """An .npz file that is open for reading; a context manager. DataError for what is none."""

    def __init__(self, source: Path) -> None:
        self.source = source
        try:
            self._archive = zipfile.ZipFile(source)
            names = self._archive.namelist()
        except (OSError, zipfile.BadZipFile, ValueError, RuntimeError) as error:
            raise DataError(f"not an .npz file that can be read: {error}", str(source)) from error
        self.names = [name.removesuffix(".npy") for name in names]
        """The arrays that it says it has."""

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def array(self, name: str) -> Array:
        """One array, refused by its header before it is unpacked where it is too large; never
        objects, which could run code. DataError."""
        where = f"{self.source}:{name}"
        try:
            with self._archive.open(f"{name}.npy") as stream:
                version = np.lib.format.read_magic(stream)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, by_columns, dtype = read(stream)
                size = math.prod(shape) * dtype.itemsize
                if dtype.hasobject:
                    raise DataError("holds Python objects, which can run code when opened", where)
                if size > BYTES_LIMIT:
                    raise DataError(f"{size:,} bytes, more than the {BYTES_LIMIT:,} allowed", where)
                if self._archive.getinfo(f"{name}.npy").file_size - stream.tell() != size:
                    raise DataError(f"is not of the {size:,} bytes that its header tells", where)
                data = stream.read(size)
        except DataError:
            raise
        except Exception as error:  # zlib's, the archive's, numpy's: all say that it is damaged
            raise DataError(f"cannot be read: {error}", where) from error
        found: Array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")
        return found
