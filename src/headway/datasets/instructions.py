"""Instructions with exact answers as conversations, and a text for pre-training, both generated."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headway.base.files import json_bytes, write_file
from headway.base.folders import new_folder
from headway.data.instructions import KINDS, Instruction, instruction, pretraining_lines
from headway.datasets.descriptions import FILE, Description, Fetched, reused

NAME = "instructions"
VERSION = 2
"""The number of this collection; another one has other instructions."""
TEXT = "text.txt"


@dataclass(frozen=True)
class Part:
    """A file of instructions: their number of each kind, and whether content and phrasing are
    among those that are not learned."""

    count: int
    held_out: bool = True
    new_phrasing: bool = False


PARTS = {
    "train": Part(4000, held_out=False),
    "valid": Part(50),
    "new-phrasings": Part(50, new_phrasing=True),
}
LINES = 40_000
"""The number of lines of the text for pre-training."""


def fetch_instructions(folder: Path) -> Fetched:
    """Write train.jsonl, valid.jsonl, new-phrasings.jsonl and text.txt to the new `folder`.

    A complete folder is reused. Raises UsageError if `folder` has another content, which is never
    overwritten.
    """
    if folder.exists():
        return reused(folder, {"dataset": NAME, "version": VERSION})
    description: Description = {
        "dataset": NAME,
        "version": VERSION,
        "instructions": {name: part.count * len(KINDS) for name, part in PARTS.items()},
    }
    with new_folder(folder) as temporary:
        for name, part in PARTS.items():
            rows = "".join(f"{_row(one)}\n" for one in _instructions(name, part))
            write_file(temporary / f"{name}.jsonl", rows.encode())
        lines = pretraining_lines(Random(f"{VERSION} {TEXT}"), LINES)
        write_file(temporary / TEXT, "".join(f"{line}\n" for line in lines).encode())
        write_file(temporary / FILE, json_bytes(description))
    return Fetched(folder, description)


def describe(fetched: Fetched) -> list[str]:
    """Describe the instructions: the number in each file, and what it measures."""
    sizes = " · ".join(f"{count:,} {name}" for name, count in fetched["instructions"].items())
    return [
        f"instructions {sizes}{fetched.note}; {TEXT} for pre-training",
        "valid: contents that are not in train; new-phrasings: also other phrasings",
    ]


def _instructions(name: str, part: Part) -> Iterator[Instruction]:
    random = Random(f"{VERSION} {name}")
    for _ in range(part.count):
        for kind in KINDS:
            yield instruction(kind, random, held_out=part.held_out, new_phrasing=part.new_phrasing)


def _row(one: Instruction) -> str:
    messages = [
        {"role": "user", "content": one.question},
        {"role": "assistant", "content": one.answer},
    ]
    return json.dumps({"messages": messages, "kind": one.kind})
