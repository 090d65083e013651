"""What runs share that fine-tune an encoder: how they begin, and that their data stays the same."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.bundle import EncoderBundle, TextBundle
from headway.errors import DataError, UsageError
from headway.files import json_bytes, read_json, write_file
from headway.models import Bert
from headway.tasks.opening import load_as
from headway.tasks.sections import LoRAConfig
from headway.transforms import fast, is_fast, merge_lora
from headway.transforms import lora as add_lora

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


def adapt(model: nn.Module, lora: LoRAConfig) -> None:
    """Add adapters, which alone are trained, if the settings say so. UsageError if no layer has
    one of the names."""
    if lora.rank:
        try:
            add_lora(model, lora.rank, lora.alpha, lora.dropout, lora.targets or None)
        except ValueError as error:
            raise UsageError(f"lora: {error}") from error


def without_adapters(model: Any, lora: LoRAConfig) -> Any:
    """A copy with the adapters merged into the weights; the model itself if it has none."""
    if not lora.rank:
        return model
    merged = merge_lora(deepcopy(model))
    return fast(merged) if is_fast(model) else merged


def shape_of(start: EncoderBundle | TextBundle) -> str:
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
