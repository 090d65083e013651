"""Prepared data on disk: a folder of named arrays that every run that uses it maps into memory.

A store is a table of N rows. The folder has

    store.json         format, fingerprint of what encoded the rows, N, dtype and shape of each
                       array, and metadata
    NAME.bin           an array, little-endian: its first axis has N entries, or it has the
                       concatenated sequences of all rows, and there is also
    NAME.offsets.bin   N + 1 int64 numbers: sequence i is values[offsets[i] : offsets[i + 1]]
    MANIFEST.json      size and sha256 of every file (`base/folders.py`)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.folders import new_folder, verify_folder

FORMAT = 1
DESCRIPTION_FILE = "store.json"
_CHECKED = 1 << 22  # numbers whose range is checked at once
Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]


def ids_dtype(vocabulary: int) -> str:
    """Return the dtype of token ids below `vocabulary`."""
    return "uint16" if vocabulary <= 2**16 else "uint32"


@dataclass(frozen=True)
class Store:
    """A store whose arrays are memory-mapped and checked when they are read.

    count: the number of rows. arrays: {"dtype", "shape"} of each array. metadata: unchecked JSON
    values, such as counts (`number`) and names.
    """

    folder: Path
    count: int
    arrays: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path, fingerprint: str, encoder: str) -> Store:
        """Open the store in `folder`.

        fingerprint: that of the `encoder` (a word such as "tokenizer") of its rows. Raises
        DataError if a file is missing or has changed, or if the fingerprint differs.
        """
        verify_folder(folder, _hint(folder))
        path = folder / DESCRIPTION_FILE
        store = None
        match description := read_json(path):
            case {"rows": int(count), "arrays": dict(arrays), "metadata": dict(metadata)}:
                store = cls(folder, count, arrays, metadata)
        if store is None or store.count < 1 or description.get("format") != FORMAT:
            what = f"the file does not describe prepared data of format {FORMAT}"
            raise DataError(what, str(path), _hint(folder))
        if description.get("fingerprint") != fingerprint:
            raise store.error(
                f"the data must be encoded with the {encoder} {fingerprint}, but were encoded with "
                f"another {encoder}, {description.get('fingerprint')}"
            )
        return store

    def array(
        self, name: str, dtype: str, shape: tuple[int, ...] = (), *, below: int | None = None
    ) -> Array:
        """Map an array of N entries of the same shape.

        below: a number that is above all numbers of the array, which are at least 0. Raises
        DataError if the array is missing or has another dtype, shape or range.
        """
        return self._mapped(name, dtype, (self.count, *shape), below)

    def sequences(
        self, name: str, dtype: str, *, below: int | None = None, may_be_empty: bool = False
    ) -> tuple[Array, Offsets]:
        """Map N sequences of different lengths: their values, and N + 1 offsets. As `array`."""
        offsets = self._mapped(f"{name}.offsets", "int64", (self.count + 1,))
        starts, ends = offsets[:-1], offsets[1:]
        if offsets[0] or not (starts <= ends if may_be_empty else starts < ends).all():
            what = "the offsets must start at 0 and increase, but do not"
            raise self.error(what, f"{name}.offsets.bin")
        return self._mapped(name, dtype, (int(offsets[-1]),), below), offsets

    def number(self, name: str, least: int = 0) -> int:
        """Return an integer of the metadata. Raises DataError unless it is at least `least`."""
        value = self.metadata.get(name)
        if type(value) is not int or value < least:
            raise self.error(f"{name} must be an integer of at least {least}, but is {value!r}")
        return value

    def error(self, what: str, file: str = DESCRIPTION_FILE) -> DataError:
        """Return the error for a file of the store."""
        return DataError(what, str(self.folder / file), _hint(self.folder))

    def _mapped(
        self, name: str, dtype: str, shape: tuple[int, ...], below: int | None = None
    ) -> Array:
        expected, file = {"dtype": dtype, "shape": [*shape]}, f"{name}.bin"
        if self.arrays.get(name) != expected:
            raise self.error(f"{name} must be {expected}, but is {self.arrays.get(name)}")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        path = self.folder / file
        actual = path.stat().st_size if path.is_file() else None
        if actual != size:
            found = "is missing" if actual is None else f"has {actual:,}"
            raise self.error(f"the file must have {size:,} bytes, but {found}", file)
        if not size:  # an empty file cannot be mapped
            return np.empty(shape, dtype)
        little = np.dtype(dtype).newbyteorder("<")
        # as a plain array, because slices of a memmap take several times longer
        values = np.asarray(np.memmap(path, little, "r", shape=shape))
        if below is not None:
            # read from the file: pages of the map would stay in the memory of this process
            for start in range(0, size, _CHECKED * little.itemsize):
                part = np.fromfile(path, little, _CHECKED, offset=start)
                if part.min() < 0 or part.max() >= below:
                    what = f"the numbers must be from 0 to {below - 1}, but one is not"
                    raise self.error(what, file)
        return values


class StoreWriter:
    """A new store. What is appended to an array is written to its file, so memory holds none of it.

    arrays: {"dtype", "shape"} of each array so far. metadata: JSON values to save with them.
    """

    def __init__(self, folder: Path, files: ExitStack) -> None:
        """files: closes the files that are written to `folder`."""
        self._folder, self._stack = folder, files
        self._files: dict[str, BinaryIO] = {}
        self.arrays: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}

    def size(self, name: str) -> int:
        """Return the length of the first axis of an array so far."""
        return self.arrays[name]["shape"][0] if name in self.arrays else 0

    def append(self, name: str, entries: npt.ArrayLike, dtype: str) -> None:
        """Append entries, or values of the last sequence, to an array."""
        values = np.asarray(entries, np.dtype(dtype).newbyteorder("<"))
        if name not in self._files:
            self._files[name] = self._stack.enter_context((self._folder / f"{name}.bin").open("xb"))
            self.arrays[name] = {"dtype": dtype, "shape": [0, *values.shape[1:]]}
        self._files[name].write(values.tobytes())
        self.arrays[name]["shape"][0] += len(values)

    def append_sequences(self, name: str, sequences: Sequence[Sequence[int]], dtype: str) -> None:
        """Append sequences of different lengths."""
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        starts = self.size(name) + np.cumsum(lengths) - lengths
        self.append(f"{name}.offsets", starts, "int64")
        values = np.fromiter(chain.from_iterable(sequences), dtype, int(lengths.sum()))
        self.append(name, values, dtype)


@contextmanager
def new_store(folder: Path, fingerprint: str) -> Iterator[StoreWriter]:
    """A store to fill; it becomes `folder`, complete and durable, when the block ends.

    fingerprint: that of what encodes the rows. After any error no partial folder remains. Raises
    UsageError if `folder` exists, ValueError if the arrays have different numbers of rows.
    """
    with new_folder(folder) as temporary:
        with ExitStack() as files:
            store = StoreWriter(temporary, files)
            yield store
            ends = [name for name in store.arrays if f"{name}.offsets" in store.arrays]
            for name in ends:
                store.append(f"{name}.offsets", [store.size(name)], "int64")
        counts = {
            name: store.size(f"{name}.offsets") - 1 if name in ends else store.size(name)
            for name in store.arrays
            if not name.endswith(".offsets")
        }
        if len(set(counts.values())) != 1:
            raise ValueError(f"all arrays must have the same number of rows, but have {counts}")
        description = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "rows": next(iter(counts.values())),
            "arrays": store.arrays,
            "metadata": store.metadata,
        }
        write_file(temporary / DESCRIPTION_FILE, json_bytes(description))


def _hint(folder: Path) -> str:
    return f"delete {folder}; training prepares it again from the source"
