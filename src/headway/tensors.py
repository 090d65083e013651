"""Tensors in safetensors files: written durably, read whole; nothing in them can run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch

from headway.errors import DataError
from headway.files import read_bytes, write_file
from headway.shapes import Tensor

HEADER_LIMIT = 16 * 2**20
TENSOR_LIMIT = 100_000
NAME_LIMIT = 512
FILE_LIMIT = 2**41
_RUNNABLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Save; a tensor that shares memory with another is stored twice, so that each is whole."""
    plain = {n: t.detach().to("cpu", copy=False).contiguous() for n, t in tensors.items()}
    places: set[int] = set()
    for name, tensor in plain.items():
        if tensor.numel() and tensor.untyped_storage().data_ptr() in places:
            plain[name] = tensor.clone()
        places.add(tensor.untyped_storage().data_ptr())
    # transformers before 5 refuses a file without this entry
    write_file(path, safetensors.torch.save(plain, metadata={"format": "pt"}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Load. The file is read, not mapped, so writing over it later changes nothing here."""
    data = read_bytes(path, FILE_LIMIT)
    if data.startswith(_RUNNABLE_STARTS):
        raise DataError(
            "this file can run code when opened (Python's own format); Headway never reads one",
            str(path),
            "convert it to safetensors with the program that wrote it",
        )
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(HEADER_LIMIT, len(data) - 8):
        raise DataError(f"not a safetensors file: its header claims {size:,} bytes", str(path))
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"not a valid safetensors file: {error}", str(path)) from error
    if len(tensors) > TENSOR_LIMIT:
        raise DataError(f"{len(tensors):,} tensors, more than {TENSOR_LIMIT:,}", str(path))
    if any(len(name.encode()) > NAME_LIMIT for name in tensors):
        raise DataError(f"a tensor name longer than {NAME_LIMIT} bytes", str(path))
    return tensors
