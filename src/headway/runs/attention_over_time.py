"""Attention of one held-out example, each time a run is evaluated: how its heads came to be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.bundle import Bundle
from headway.errors import DataError, UsageError
from headway.files import parse_json
from headway.inspection.document import Document
from headway.inspection.page import encode, header_json
from headway.inspection.watch import watch
from headway.tasks.job import Example
from headway.tensors import read_tensors, write_tensors

FOLDER = "glimpses"
HEADER = "header"
CELLS = 1_000_000  # weights of one glimpse, at most


@dataclass(frozen=True)
class Glimpses:
    """Keeps what a run's model attends to while it reads `example`, one file an evaluation."""

    folder: Path
    example: Example

    def keep(self, bundle: Bundle, step: int) -> None:
        """The file of this step, over an older one. Nothing for a model that does not attend, and
        of an example too long to be kept so often."""
        try:
            frame = watch(bundle, **self.example._asdict(), analyses=(), label=f"step {step:,}")
        except UsageError:
            return
        if sum(weights.numel() for maps in frame.maps for weights in maps.weights) > CELLS:
            return
        encoded = encode(Document(title=frame.label, frames=[frame]), prefix=f"s{step}-b")
        self.folder.mkdir(exist_ok=True)
        parts = {HEADER: header_json(encoded.header), **encoded.blocks}
        blocks = {
            name: torch.frombuffer(bytearray(data), dtype=torch.uint8)
            for name, data in parts.items()
        }
        write_tensors(self.folder / f"step-{step:09}.safetensors", blocks)


def read_glimpses(run: Path) -> tuple[list[Any], dict[str, bytes]]:
    """All glimpses of a run folder in the order of their steps: frames of a page's header, and
    their blocks. DataError names the file that is none."""
    frames: list[Any] = []
    blocks: dict[str, bytes] = {}
    for path in sorted((run / FOLDER).glob("step-*.safetensors")):
        parts = {name: bytes(data.numpy()) for name, data in read_tensors(path).items()}
        try:
            header = parse_json(parts.pop(HEADER), str(path))
            frames += header["frames"]
        except (KeyError, TypeError) as error:
            raise DataError("this is no glimpse of a run", str(path), "remove it") from error
        blocks |= parts
    return frames, blocks
