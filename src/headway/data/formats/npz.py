"""Reads arrays from untrusted .npz files: never Python objects, never more bytes than declared."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.files import check_plain

BYTES_LIMIT = 8 * 2**30  # of one array, unpacked
Array = npt.NDArray[Any]


def opened_zip(source: Path, kind: str, verb: str) -> zipfile.ZipFile:
    """Open a zip file. Raises DataError if it is damaged.

    kind: what it should be, in words. verb: how a user makes one.
    """
    try:
        check_plain(source)
        return zipfile.ZipFile(source)
    except DataError:
        raise
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError) as error:
        raise DataError(
            f"the file cannot be read as {kind}: {error}",
            str(source),
            f"{verb}, copy or download it again",
        ) from error


class ArrayFile:
    """An .npz file that is open for reading; a context manager. Raises DataError for another file
    format."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._archive = opened_zip(source, ".npz", "save")
        self.names = [name.removesuffix(".npy") for name in self._archive.namelist()]
        """Names of the arrays that the file lists."""

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def array(self, name: str) -> Array:
        """Return one array.

        Raises DataError for a missing or damaged array, for one with Python objects (loading them
        could run code), and for one that is too large by its header, before it is decompressed.
        """
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
                    raise DataError(
                        "the array has Python objects, which can run code when loaded",
                        where,
                        "save the array with a numeric or text dtype",
                    )
                if size > BYTES_LIMIT:
                    raise DataError(
                        f"the array has {size:,} bytes, but at most {BYTES_LIMIT:,} are allowed",
                        where,
                        "split it into several files",
                    )
                if self._archive.getinfo(f"{name}.npy").file_size - stream.tell() != size:
                    raise DataError(
                        f"the array does not have the {size:,} bytes that its header declares",
                        where,
                        "save the file again",
                    )
                data = stream.read(size)
        except DataError:
            raise
        except Exception as error:  # errors of zlib, zipfile or numpy: the file is damaged
            raise DataError(
                f"the array cannot be read: {error}", where, "save the file again"
            ) from error
        array: Array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")
        return array
