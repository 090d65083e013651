"""What a folder of another library holds, and what of it cannot be used (`headway doctor`)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headway.base.errors import HeadwayError, HeadwayWarning
from headway.base.files import read_bytes
from headway.data.speech import FRAMES_PER_SECOND
from headway.interop.chat_templates import read_chat_template
from headway.interop.folder_settings import read_folder_settings
from headway.interop.hf_folders import on_meta, read_config
from headway.interop.language_model_tokenizers import read_tokenizer
from headway.interop.speech_folders import check_speech_processor, read_speech_tokens
from headway.models import GPTConfig, TranscriberConfig, parameter_count
from headway.text import MissingTokenizer, PretrainedTokenizer

T = TypeVar("T")
BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.125}
"""Bytes of a weight; int8 has a scale of 4 bytes for each 32 weights."""
CARD, CARD_LIMIT = "README.md", 10 * 2**20
_LICENCE = re.compile(r"^license:\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass
class Explanation:
    """What a folder holds.

    settings: our configuration, in which it differs from GPT-2 and Llama for a language model; the
    spectrogram and the languages of a transcriber.
    memory: bytes of the weights by dtype. licence: as the model card names it. problems: what
    cannot be used, and why; usable: whether `headway.load` can load the model, if its weights are
    those that config.json requires.
    """

    folder: str
    usable: bool = False
    family: str | None = None
    architecture: str | None = None
    settings: list[str] = field(default_factory=list)
    parameters: int | None = None
    memory: dict[str, int] = field(default_factory=dict)
    tokenizer: str | None = None
    template: str | None = None
    ends: list[int] = field(default_factory=list)
    licence: str | None = None
    problems: list[str] = field(default_factory=list)


def explain(folder: Path) -> Explanation:
    """Explain a Hugging Face folder without reading its weights. Faults become `problems`."""
    found = Explanation(folder=str(folder), licence=_licence(folder))
    known = _tried(found, lambda: read_config(folder))
    if known is None:
        return found
    family, architecture, config = known
    found.family, found.architecture = family.model_type, architecture.names[0]
    model = _tried(found, lambda: on_meta(config))
    if model is None:
        return found
    found.usable = any(folder.glob("*.safetensors"))
    if not found.usable:
        found.problems.append("there are no weights: no *.safetensors")
    found.parameters = parameter_count(model)
    found.memory = {name: round(found.parameters * size) for name, size in BYTES.items()}
    if isinstance(config, GPTConfig):
        found.settings = config.options
        _explain_text(found, folder)
    elif isinstance(config, TranscriberConfig):
        _explain_speech(found, folder, config)
    return found


def _explain_text(found: Explanation, folder: Path) -> None:
    """Add what only language models have."""
    _explain_tokenizer(found, folder)
    _tried(found, lambda: read_folder_settings(folder, "language model"))
    template = _tried(found, lambda: read_chat_template(folder))
    found.template = None if template is None else "chat template"


def _explain_speech(found: Explanation, folder: Path, config: TranscriberConfig) -> None:
    """Add what only transcribers have."""
    seconds = 2 * config.source_positions / FRAMES_PER_SECOND
    found.settings = [f"{config.mels} mel bands", f"windows of {seconds:g} seconds"]
    tokenizer = _explain_tokenizer(found, folder)
    _tried(found, lambda: check_speech_processor(folder, config))
    _tried(found, lambda: read_folder_settings(folder, "transcriber"))
    if tokenizer is None:
        return
    tokens = _tried(found, lambda: read_speech_tokens(folder, tokenizer, config))
    if tokens is not None:
        languages = f"{len(tokens.languages)} languages" if tokens.languages else "one language"
        found.settings += [languages] if tokens.translate is None else [languages, "translation"]


def _explain_tokenizer(
    found: Explanation, folder: Path
) -> PretrainedTokenizer | MissingTokenizer | None:
    tokenizer = _tried(found, lambda: read_tokenizer(folder))
    if isinstance(tokenizer, MissingTokenizer):
        found.problems.append(str(tokenizer.missing))
    elif tokenizer is not None:
        found.tokenizer = f"{tokenizer.size:,} tokens"
        found.ends = [*tokenizer.ends]
    return tokenizer


def _tried(found: Explanation, read: Callable[[], T]) -> T | None:
    """Return what a reader returns; its warnings and its error become problems."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HeadwayWarning)
        try:
            result = read()
        except HeadwayError as error:
            found.problems.append(str(error))
            result = None
    for warning in caught:
        text = str(warning.message)
        if issubclass(warning.category, HeadwayWarning) and text not in found.problems:
            found.problems.append(text)
    return result


def _licence(folder: Path) -> str | None:
    """Return the licence that the first lines of the model card name."""
    card = folder / CARD
    if not card.is_file():
        return None
    named = _LICENCE.search(read_bytes(card, CARD_LIMIT).decode(errors="replace"))
    return None if named is None else named[1]
