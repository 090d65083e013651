"""What every bundle on disk has: config.json and model.safetensors, written and read alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from headway.errors import DataError, UsageError
from headway.extensions import packages_of
from headway.files import json_bytes, read_json, write_file
from headway.folders import MANIFEST, replaced_folder, verify_folder
from headway.models.contracts import set_parameters
from headway.settings import to_dict
from headway.shapes import Tensor
from headway.tensors import read_tensors, write_tensors

FORMAT = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
PACKAGES = "packages"
"""A key of config.json: packages that the model needs besides Headway."""


@runtime_checkable
class Text(Protocol):
    """The strings-to-ids side of a bundle: tokenizers, or a vocabulary of words."""

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...


def save_files(
    folder: Path,
    model: nn.Module,
    text: Text,
    overwrite: bool = False,
    more: Mapping[str, str | int] | None = None,
) -> None:
    """Write all files durably, and a manifest of their hashes; each is the old one or the new one,
    never half.

    `model.config` says the family. more: further entries of config.json. A folder that holds
    anything is left alone unless `overwrite`.
    """
    if folder.exists() and any(folder.iterdir()) and not overwrite:
        raise UsageError(f"{folder} is not empty", hint="choose another folder")
    config: Any = model.config
    facts = {
        "format": FORMAT,
        "family": config.family,
        "tokenizer": text.fingerprint,
        "model": to_dict(config),
        **(more or {}),
    }
    if packages := packages_of(config):
        facts[PACKAGES] = packages
    with replaced_folder(folder) as place:
        text.save(place)
        write_file(place / CONFIG_FILE, json_bytes(facts))
        weights = {name: p.detach() for name, p in model.named_parameters()}
        write_tensors(place / WEIGHTS_FILE, weights)


def verify_files(folder: Path) -> None:
    """DataError names the first file that is not the one that was saved.

    A folder without a manifest, of an earlier version or another program, has nothing to verify.
    """
    if os.path.lexists(folder / MANIFEST):
        verify_folder(
            folder,
            "copy the model folder again, or train the model again; if you changed the file "
            f"yourself, remove {MANIFEST}",
        )


def check_finite(model: nn.Module, path: Path) -> None:
    """DataError names the first parameter that holds a NaN or an infinite number."""
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        # A sum is several times as fast as a test of each number, and finite only if all are.
        if bool(torch.isfinite(value.sum())) or bool(torch.isfinite(value).all()):
            continue
        bad = torch.nonzero(~torch.isfinite(value))
        raise DataError(
            f"{len(bad):,} of {value.numel():,} numbers of {name} are not finite; the first is "
            f"{value[tuple(bad[0])].item()} at {bad[0].tolist()}",
            str(path),
            "use an earlier copy of the model: this one was damaged, or its training diverged",
        )


def read_facts(folder: Path) -> dict[str, Any]:
    """config.json, after its format was checked."""
    path = folder / CONFIG_FILE
    facts = read_json(path)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise DataError(f"not a Headway model (format {FORMAT})", str(path))
    return facts


def check_fingerprint(facts: dict[str, Any], found: str, folder: Path) -> None:
    """DataError unless the text side is the one that the model was trained with."""
    if facts.get("tokenizer") != found:
        raise DataError(
            f"the model was trained with tokenizer {str(facts.get('tokenizer'))[:12]}, but the one "
            f"here is {found[:12]}",
            str(folder),
            "put the tokenizer of the training back",
        )


def check_pieces(pieces: int, vocabulary: int) -> None:
    """DataError if the tokenizer has more pieces than the model knows; less is padding, to a round
    number."""
    if pieces > vocabulary:
        raise DataError(
            f"the tokenizer has {pieces:,} pieces, the model {vocabulary:,}",
            hint="the model and the tokenizer are not from the same training",
        )


def fill(model: nn.Module, folder: Path) -> None:
    """Put the saved values into a model built on the meta device; every name and shape must fit.

    Parameters that were one stay one.
    """
    path = folder / WEIGHTS_FILE
    tensors = read_tensors(path)
    own = dict(model.named_parameters())
    for name in sorted(own.keys() ^ tensors.keys()):
        verb = "lacks" if name in own else "has the unknown tensor"
        raise DataError(f"the file {verb} {name}", str(path), "it belongs to another model")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise DataError(
                f"{name} has shape {tuple(tensors[name].shape)}, config.json says "
                f"{tuple(parameter.shape)}",
                str(path),
                "config.json and model.safetensors are not from the same training",
            )
    set_parameters(model, {name: _own(tensors[name], p) for name, p in own.items()})


def _own(value: Tensor, parameter: Tensor) -> Tensor:
    """A copy in the model's number format; what was read may be a view of the file's bytes."""
    # not empty_like, which imports sympy for a tensor on the meta device
    return torch.empty(parameter.shape, dtype=parameter.dtype).copy_(value)
