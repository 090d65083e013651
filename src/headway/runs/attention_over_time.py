"""Attention on one held-out example, saved at each evaluation of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.errors import DataError, UsageError
from headway.base.files import parse_json
from headway.base.tensors import read_tensors, write_tensors
from headway.bundle import Bundle
from headway.inspection.document import Document
from headway.inspection.page import encode, header_json
from headway.inspection.watch import watch
from headway.tasks.job import Example

FOLDER = "glimpses"
HEADER = "header"
CELLS = 1_000_000  # the most attention weights that are saved per evaluation


@dataclass(frozen=True)
class AttentionSnapshots:
    """Saves the attention of a model on `example`, in one file per evaluation."""

    folder: Path
    example: Example

    def keep(self, bundle: Bundle, step: int) -> None:
        """Write the file of this step, and replace an older one.

        Does nothing for a model without attention, or for an example with too many weights.
        """
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


def read_attention_snapshots(run: Path) -> tuple[list[object], dict[str, bytes]]:
    """The saved attention of a run in the order of steps: frames of a page's header, and blocks.

    DataError names an invalid file.
    """
    frames: list[object] = []
    blocks: dict[str, bytes] = {}
    for path in sorted((run / FOLDER).glob("step-*.safetensors")):
        parts = {name: bytes(data.numpy()) for name, data in read_tensors(path).items()}
        try:
            header = parse_json(parts.pop(HEADER), str(path))
            frames += header["frames"]
        except (KeyError, TypeError) as error:
            raise DataError(
                "the file does not contain saved attention of a run", str(path), "remove it"
            ) from error
        blocks |= parts
    return frames, blocks
