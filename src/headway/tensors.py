"""Tensors in safetensors files: written durably, read whole, never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch

from headway.errors import DataError
from headway.files import parse_json, read_bytes, write_file
from headway.shapes import Tensor

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
    """Save durably. `metadata` is text that stands in the file's header.

    A tensor that shares memory with another is stored twice, so that each is whole.
    """
    plain = {n: t.detach().to("cpu", copy=False).contiguous() for n, t in tensors.items()}
    places: set[int] = set()
    for name, tensor in plain.items():
        if tensor.numel() and tensor.untyped_storage().data_ptr() in places:
            plain[name] = tensor.clone()
        places.add(tensor.untyped_storage().data_ptr())
    write_file(path, safetensors.torch.save(plain, metadata=dict(metadata)))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Load. The file is read, not mapped, so writing over it later changes nothing here.

    DataError names the file: a pickle, a header that lies, more tensors than anybody needs.
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


def _check_header(data: bytes, where: str) -> None:
    """Refuse what is too large before any of it is built; the library has no such limits."""
    size = int.from_bytes(data[:8], "little")
    # The header's length may itself begin with a pickle's bytes (640 does); then "{" follows it.
    if data.startswith(_PICKLE_STARTS) and data[8:9] != b"{":
        raise DataError(
            "this is a pickle, which can run code when opened; Headway never reads one",
            where,
            "convert it to safetensors with the program that wrote it",
        )
    if len(data) < 8 or size > min(HEADER_LIMIT, len(data) - 8):
        raise DataError(f"not a safetensors file: its header claims {size:,} bytes", where)
    header = parse_json(data[8 : 8 + size], where)
    if not isinstance(header, dict):
        raise DataError("not a safetensors file: its header names no tensors", where)
    count = len(header) - ("__metadata__" in header)
    if count > TENSOR_LIMIT:
        raise DataError(f"{count:,} tensors, more than {TENSOR_LIMIT:,}", where)
    if any(len(name.encode(errors="replace")) > NAME_LIMIT for name in header):
        raise DataError(f"a tensor name longer than {NAME_LIMIT} bytes", where)
