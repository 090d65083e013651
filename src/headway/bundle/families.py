"""`headway.load(folder)`: which family a folder holds, and its bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from headway.bundle.files import CONFIG_FILE, fill, read_facts
from headway.bundle.text import TextBundle
from headway.bundle.translator import TranslatorBundle
from headway.bundle.words import WordsBundle
from headway.errors import DataError, UsageError
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig, WordsConfig, words_model
from headway.settings import override

Bundle = TranslatorBundle | WordsBundle | TextBundle
"""What `load` returns."""

B = TypeVar("B")


@dataclass(frozen=True)
class Family:
    """config: its settings. model: makes the model from them. bundle: the model and its verbs."""

    config: type[Any]
    model: Callable[[Any], nn.Module]
    bundle: type[Bundle]


FAMILIES: dict[str, Family] = {
    "translator": Family(TranslatorConfig, Translator, TranslatorBundle),
    "gpt": Family(GPTConfig, GPT, TextBundle),
    "words": Family(WordsConfig, words_model, WordsBundle),
}
"""`family` in config.json -> what it needs."""


def load(folder: str | Path, device: str = "cpu") -> Bundle:
    """Open a bundle, or the best model of a run folder.

    DataError if a file is missing or damaged, or if model and tokenizer do not belong together.
    """
    place = Path(folder)
    if (place / "model" / CONFIG_FILE).is_file():
        place = place / "model"
    if not (place / CONFIG_FILE).is_file():
        raise UsageError(
            f"{folder} holds no model: there is no {CONFIG_FILE}",
            hint="name a run folder (headway runs ls) or the model folder inside it",
        )
    facts = read_facts(place)
    family, config = _family(facts, place / CONFIG_FILE)
    with torch.device("meta"):
        model: Any = family.model(config)
    fill(model, place)
    return family.bundle.open(model.to(device), place, facts)


def load_as(wanted: type[B], folder: str | Path, device: str = "cpu") -> B:
    """The bundle in `folder`, which must be of this class: for verbs that only one kind has."""
    bundle, kind = load(folder, device), getattr(wanted, "kind", "model")
    if not isinstance(bundle, wanted):
        raise UsageError(
            f"{folder} holds a {bundle.kind}, and this needs a {kind}",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle


def _family(facts: dict[str, Any], path: Path) -> tuple[Family, Any]:
    """The family that config.json names, and its configuration."""
    if facts.get("family") not in FAMILIES or not isinstance(facts.get("model"), dict):
        known = ", ".join(FAMILIES)
        raise DataError(f"unknown family {facts.get('family')!r}; known: {known}", str(path))
    family = FAMILIES[facts["family"]]
    try:
        return family, override(family.config(), facts["model"], str(path))
    except UsageError as error:
        raise DataError(error.what, str(path), error.hint) from error
