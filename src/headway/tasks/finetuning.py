"""What runs share that fine-tune an encoder: how they begin, and that their data stays the same."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.bundle import EncoderBundle
from headway.errors import DataError, UsageError
from headway.files import json_bytes, read_json, write_file
from headway.models import Bert
from headway.tasks.opening import load_as

HINT = "--from RUN or --from MODEL, an encoder of BERT's family"


def check_start(start: str | None, what: str) -> None:
    """UsageError unless a model to start from is named."""
    if start is None:
        raise UsageError(f"{what} is made from an encoder, and none is named", hint=HINT)


def open_start(start: str | None) -> EncoderBundle:
    """The encoder that is fine-tuned. UsageError if it is no encoder."""
    return load_as(EncoderBundle, str(start))


def copy_of(start: EncoderBundle, dropout: float) -> Bert:
    """A model of its own with the values of `start`."""
    bert = Bert(replace(start.config, dropout=dropout))
    bert.load_state_dict(start.model.state_dict())
    return bert


def shape_of(start: EncoderBundle) -> str:
    """For the screen."""
    shape = start.config
    return f"{shape.num_layers} layers, d={shape.model_dim}, {shape.num_heads} heads"


def balanced(counts: Counter[Any], classes: int) -> tuple[float, ...]:
    """N / (C n_c): all together the examples weigh what they did, and each class as much as any
    other. A class without an example to train on has weight 0."""
    total = counts.total()
    return tuple(total / (len(counts) * counts[c]) if counts[c] else 0.0 for c in range(classes))


def check_unchanged(path: Path, reader: str, sides: Sequence[Any]) -> None:
    """Note what is learned from; DataError if the run began with something else.

    Examples are read anew each time that a run goes on; others would make it another run. reader:
    the fingerprint of what reads them.
    """
    seen = hashlib.sha256(json.dumps(sides).encode()).hexdigest()
    facts = {"format": 1, "reader": reader, "sha256": seen}
    if not path.exists():
        write_file(path, json_bytes(facts))
    elif read_json(path) != facts:
        raise DataError(
            "the texts, what is marked in them, or the model to start from are not those that the "
            "run began with",
            str(path),
            "put them back, or --run OTHERNAME for a new run",
        )
