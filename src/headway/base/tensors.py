"""Tensors in safetensors files: durable writes, reads with limits, no pickle."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from headway.base.errors import DataError
from headway.base.files import parse_json, read_bytes, write_file
from headway.base.shapes import Tensor

HEADER_LIMIT = 16 * 2**20
TENSOR_LIMIT = 100_000
NAME_LIMIT = 512
FILE_LIMIT = 2**41
_PICKLE_STARTS = (b"PK", b"\x80")  # the zip that torch.save writes, and a bare pickle
# transformers before 5 refuses a file without this entry
_METADATA: Mapping[str, str] = {"format": "pt"}


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] = _METADATA
) -> None:
    """Write tensors durably, with `metadata` in the header of the file.

    Tensors that share memory are stored separately, each whole.
    """
    plain = {n: t.detach().to("cpu", copy=False).contiguous() for n, t in tensors.items()}
    addresses: set[int] = set()
    for name, tensor in plain.items():
        if tensor.numel() and tensor.untyped_storage().data_ptr() in addresses:
            plain[name] = tensor.clone()
        addresses.add(tensor.untyped_storage().data_ptr())
    write_file(path, safetensors.torch.save(plain, metadata=dict(metadata)))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file. The file is not mapped, so that later writes have no effect.

    DataError names the file if it is a pickle, not a safetensors file, or beyond the limits.
    """
    data = read_bytes(path, FILE_LIMIT)
    _check_header(data, str(path))
    try:
        return safetensors.torch.load(data)
    except (
        *(safetensors.SafetensorError, ValueError, KeyError, TypeError),
        *(RuntimeError, OverflowError),  # torch's own, for sizes that no tensor can have
    ) as error:
        raise DataError(f"not a valid safetensors file: {error}", str(path)) from error


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, or with its rows in several files, which is read in whole or in part.

    pieces: each file and its number of rows, in their order; one file for a single number.
    """

    shape: tuple[int, ...]
    _name: str
    _pieces: tuple[tuple[Any, int], ...]

    def whole(self) -> Tensor:
        """Read the tensor."""
        if len(self._pieces) > 1:
            return self.rows(slice(0, self.shape[0]))
        read: Tensor = self._pieces[0][0].get_tensor(self._name)
        return read.clone()  # what was read may be a view of the file

    def rows(self, rows: slice) -> Tensor:
        """Read some rows of the tensor; all, if the slice has no ends."""
        if rows == slice(None):
            return self.whole()
        first, last, _ = rows.indices(self.shape[0])
        start, read = 0, []
        for file, count in self._pieces:
            inside = slice(max(first - start, 0), max(min(last - start, count), 0))
            if inside.start < inside.stop:
                read.append(file.get_slice(self._name)[inside])
            start += count
        if not read:
            read.append(self._pieces[0][0].get_slice(self._name)[0:0])
        return torch.cat(read)


@contextmanager
def stored_tensors(paths: Sequence[Path]) -> Iterator[dict[str, StoredTensor]]:
    """Open files inside the block, and return their tensors by name. Errors: see `read_tensors`.

    A tensor of several files has the rows of the first one, then those of the next one, and so on.
    Use it for files that nobody else changes: they are mapped while they are open.
    """
    with ExitStack() as opened:
        tensors: dict[str, StoredTensor] = {}
        for path in paths:
            tensor_names(path)  # checks the header
            try:
                file: Any = opened.enter_context(safetensors.safe_open(path, "pt"))
            except safetensors.SafetensorError as error:
                raise DataError(f"not a valid safetensors file: {error}", str(path)) from error
            for name in file.keys():  # noqa: SIM118 (the file is not a mapping)
                shape = tuple(file.get_slice(name).get_shape())
                before = tensors.get(name)
                if before is None:
                    tensors[name] = StoredTensor(shape, name, ((file, shape[0] if shape else 1),))
                    continue
                if not shape or shape[1:] != before.shape[1:]:
                    raise DataError(f"{name} has rows of another shape in other files", str(path))
                rows = before.shape[0] + shape[0]
                pieces = (*before._pieces, (file, shape[0]))
                tensors[name] = StoredTensor((rows, *shape[1:]), name, pieces)
        yield tensors


def tensor_names(path: Path) -> list[str]:
    """Read the names of the tensors of a file, but not the tensors. Errors: see `read_tensors`."""
    with path.open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        header = file.read(min(size, HEADER_LIMIT))
    _check_header(start + header, str(path))
    return [name for name in parse_json(header, str(path)) if name != "__metadata__"]


def _check_header(data: bytes, where: str) -> None:
    """DataError for a header beyond the limits, before tensors are built; safetensors has none."""
    size = int.from_bytes(data[:8], "little")
    # The length of the header may start with the bytes of a pickle (640 does); then "{" follows.
    if data.startswith(_PICKLE_STARTS) and data[8:9] != b"{":
        raise DataError(
            "this is a pickle file, which can run code when loaded; Headway does not load pickles",
            where,
            "convert it to safetensors with the program that wrote it",
        )
    if len(data) < 8 or size > min(HEADER_LIMIT, len(data) - 8):
        raise DataError(
            f"not a safetensors file: the length of its header would be {size:,} bytes", where
        )
    header = parse_json(data[8 : 8 + size], where)
    if not isinstance(header, dict):
        raise DataError("not a safetensors file: its header must be a JSON object", where)
    count = len(header) - ("__metadata__" in header)
    if count > TENSOR_LIMIT:
        raise DataError(
            f"the file has {count:,} tensors; at most {TENSOR_LIMIT:,} are allowed", where
        )
    if any(len(name.encode(errors="replace")) > NAME_LIMIT for name in header):
        raise DataError(f"a tensor name has more than {NAME_LIMIT} bytes", where)
