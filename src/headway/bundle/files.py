"""Write and read the files that every bundle has: config.json and model.safetensors."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.extensions import extension_packages
from headway.base.files import json_bytes, read_json, write_file
from headway.base.folders import MANIFEST, replaced_folder, verify_folder
from headway.base.settings import to_dict
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors, write_tensors
from headway.models.contracts import set_parameters
from headway.transforms.lora import LoRALinear
from headway.transforms.quantize import numbers_of
from headway.transforms.quantize import prepare as prepare_quantized

FORMAT = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
PACKAGES = "packages"
"""A key of config.json: packages that the model needs besides Headway."""


NUMBERS_KEY = "numbers"
"""A key of config.json: int8, int4 or bfloat16, if the model is quantised."""


class Text(Protocol):
    """The text-processing side of a bundle: tokenizers, or a vocabulary of words."""

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...


def save_files(
    folder: Path,
    model: nn.Module,
    text: Text,
    overwrite: bool = False,
    more: Mapping[str, object] | None = None,
) -> None:
    """Write all files durably and atomically, with a manifest of their hashes.

    more: further entries of config.json. overwrite: replace a folder that is not empty; otherwise
    such a folder raises UsageError, and so does a model with adapters.
    """
    adapted = next((n for n, m in model.named_modules() if isinstance(m, LoRALinear)), None)
    if adapted is not None:
        raise UsageError(
            f"the model has LoRA adapters, such as that of {adapted}; a model folder has merged "
            "weights only",
            str(folder),
            "apply headway.transforms.merge_lora to the model, or to a deep copy of it, first",
        )
    if folder.exists() and any(folder.iterdir()) and not overwrite:
        raise UsageError(
            f"the folder {folder} is not empty", hint="choose a new or an empty folder"
        )
    config: Any = model.config
    contents = {
        "format": FORMAT,
        "family": config.family,
        "tokenizer": text.fingerprint,
        "model": to_dict(config),
        **(more or {}),
    }
    if numbers := numbers_of(model):
        contents[NUMBERS_KEY] = numbers
    if packages := extension_packages(config):
        contents[PACKAGES] = packages
    with replaced_folder(folder) as temporary:
        text.save(temporary)
        write_file(temporary / CONFIG_FILE, json_bytes(contents))
        state = model.state_dict()  # a layer of small numbers may keep them outside its parameters
        weights = {name: state[name] for name, _ in model.named_parameters()}
        write_tensors(temporary / WEIGHTS_FILE, weights)


def verify_files(folder: Path) -> None:
    """Raise DataError with the name of the first file that was changed since it was saved.

    A folder without a manifest, which another program wrote, is not verified.
    """
    if os.path.lexists(folder / MANIFEST):
        verify_folder(
            folder,
            "copy the model folder again, or train the model again; if you changed the file "
            f"yourself, remove {MANIFEST}",
        )


def check_finite(model: nn.Module, path: Path) -> None:
    """Raise DataError with the name of the first parameter that holds NaN or infinity."""
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        # A sum is several times faster than a test of each number, and finite only if all are.
        if bool(torch.isfinite(value.sum())) or bool(torch.isfinite(value).all()):
            continue
        bad = torch.nonzero(~torch.isfinite(value))
        raise DataError(
            f"{len(bad):,} of {value.numel():,} values of {name} are not finite; the first is "
            f"{value[tuple(bad[0])].item()} at {bad[0].tolist()}",
            str(path),
            "use an earlier copy of the model: this file is damaged, or the training diverged",
        )


def read_config_file(folder: Path) -> dict[str, object]:
    """Return the contents of config.json. Raises DataError if it is not of this format version."""
    path = folder / CONFIG_FILE
    contents = read_json(path)
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise DataError(
            f"not a Headway model: expected a JSON object with format={FORMAT}", str(path)
        )
    return contents


def check_fingerprint(contents: dict[str, object], fingerprint: str, folder: Path) -> None:
    """Raise DataError unless the tokenizer is the one that the model was trained with.

    contents: of config.json. fingerprint: that of the tokenizer in the folder.
    """
    if contents.get("tokenizer") != fingerprint:
        raise DataError(
            f"the model was trained with tokenizer {str(contents.get('tokenizer'))[:12]}, but this "
            f"folder has tokenizer {fingerprint[:12]} (fingerprints)",
            str(folder),
            "restore the tokenizer files that the model was trained with",
        )


def check_vocabulary_size(tokens: int, vocabulary: int) -> None:
    """Raise DataError if the tokenizer has more tokens than the model's vocabulary.

    It may have fewer: a vocabulary may be padded to a round number.
    """
    if tokens > vocabulary:
        raise DataError(
            f"the tokenizer has {tokens:,} tokens, but the model's vocabulary {vocabulary:,}",
            hint="use the tokenizer that the model was trained with",
        )


def fill(model: nn.Module, folder: Path) -> None:
    """Load the saved weights into a model on the meta device; all names and shapes must match.

    Tied parameters stay tied. Raises DataError for a missing, unknown or differently shaped tensor.
    """
    path = folder / WEIGHTS_FILE
    tensors = read_tensors(path)
    prepare_quantized(model, tensors)
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() ^ tensors.keys()):
        fault = "lacks the tensor" if name in parameters else "has the unknown tensor"
        raise DataError(
            f"the file {fault} {name}",
            str(path),
            "config.json and model.safetensors are not from the same model",
        )
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise DataError(
                f"{name} has shape {tuple(tensors[name].shape)}, but config.json requires "
                f"{tuple(parameter.shape)}",
                str(path),
                "config.json and model.safetensors are not from the same model",
            )
        if not parameter.is_floating_point() and tensors[name].dtype != parameter.dtype:
            raise DataError(
                f"{name} has dtype {_name(tensors[name].dtype)}, but must have "
                f"{_name(parameter.dtype)}",
                str(path),
                "quantise the model again: headway quantize",
            )
    set_parameters(model, {name: _copied(tensors[name], p) for name, p in parameters.items()})


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _copied(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy in the model's dtype; the value may be a view of the file's bytes."""
    # not empty_like, which imports sympy for a tensor on the meta device
    return torch.empty(parameter.shape, dtype=parameter.dtype).copy_(value)
