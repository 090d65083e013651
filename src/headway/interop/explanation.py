"""What a folder of another library holds, and what of it cannot be used (`headway doctor`)."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from headway.base.errors import HeadwayError, HeadwayWarning
from headway.base.files import read_bytes
from headway.data.speech import FRAMES_PER_SECOND
from headway.interop.chat_templates import read_chat_template
from headway.interop.encoder_tokenizers import read_encoder_tokenizer
from headway.interop.folder_settings import read_folder_settings
from headway.interop.gguf_reader import (
    SUFFIX,
    read_gguf_config,
    read_gguf_licence,
    read_gguf_template,
    read_gguf_tokenizer,
)
from headway.interop.hf_folders import on_meta, read_config
from headway.interop.language_model_tokenizers import read_tokenizer
from headway.interop.sentence_transformers import read_sentence_folder
from headway.interop.speech_folders import check_speech_processor, read_speech_tokens
from headway.interop.translator_tokenizers import read_translator_tokenizers
from headway.models import (
    BertClassifierConfig,
    BertConfig,
    BertQuestionAnsweringConfig,
    BertTaggerConfig,
    GPTConfig,
    TextEmbedderConfig,
    TranscriberConfig,
    TranslatorConfig,
    parameter_count,
)
from headway.text import EncoderTokenizer, MissingEncoderTokenizer, MissingTokenizer, TextTokenizer

TEXT_ENCODERS = (BertConfig, BertClassifierConfig, BertTaggerConfig, BertQuestionAnsweringConfig)
BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.125}
"""Bytes of a weight; int8 has a scale of 4 bytes for each 32 weights."""
CARD, CARD_LIMIT = "README.md", 10 * 2**20
_LICENCE = re.compile(r"^license:\s*(\S.*?)\s*$", re.MULTILINE)


class _Counted(Protocol):
    @property
    def size(self) -> int: ...


T = TypeVar("T")
C = TypeVar("C", bound=_Counted)


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
    """Explain a Hugging Face folder, or a GGUF file, without reading its weights. Faults become
    `problems`."""
    is_gguf = folder.suffix == SUFFIX
    found = Explanation(folder=str(folder))
    read_licence, read = (
        (read_gguf_licence, read_gguf_config) if is_gguf else (_licence, read_config)
    )
    found.licence = _tried(found, lambda: read_licence(folder))
    known = _tried(found, lambda: read(folder))
    if known is None:
        return found
    family, architecture, config = known
    found.family, found.architecture = family.model_type, architecture.names[0]
    model = _tried(found, lambda: on_meta(config))
    if model is None:
        return found
    found.usable = is_gguf or any(folder.glob("*.safetensors"))
    if not found.usable:
        found.problems.append("there are no weights: no *.safetensors")
    found.parameters = parameter_count(model)
    found.memory = {name: round(found.parameters * size) for name, size in BYTES.items()}
    if isinstance(config, GPTConfig):
        found.settings = config.options
        _explain_language_model(found, folder)
    elif isinstance(config, TextEmbedderConfig):
        directions = [] if config.causal else ["attention in both directions"]
        sentences = _tried(found, lambda: read_sentence_folder(folder))
        pooling = [] if sentences is None else [f"pooling={sentences.pooling}"]
        found.settings = [*config.gpt.options, *directions, *pooling]
        _tokenizer(found, lambda: read_tokenizer(folder))
    elif isinstance(config, TranscriberConfig):
        _explain_speech(found, folder, config)
    elif isinstance(config, TranslatorConfig):
        _tried(found, lambda: read_folder_settings(folder, "translator"))
        vocabulary = config.target_vocabulary
        _tokenizer(found, lambda: read_translator_tokenizers(folder, vocabulary).target)
    elif isinstance(config, TEXT_ENCODERS) and is_gguf:
        _tokenizer(found, lambda: read_gguf_tokenizer(folder))
    elif isinstance(config, TEXT_ENCODERS):
        _tried(found, lambda: read_sentence_folder(folder))
        _tokenizer(found, lambda: read_encoder_tokenizer(folder, family.model_type))
    return found


def _explain_language_model(found: Explanation, folder: Path) -> None:
    """Add what only language models have."""
    if folder.suffix == SUFFIX:
        found.ends = _ends(_tokenizer(found, lambda: read_gguf_tokenizer(folder)))
        template = _tried(found, lambda: read_gguf_template(folder))
    else:
        found.ends = _ends(_tokenizer(found, lambda: read_tokenizer(folder)))
        _tried(found, lambda: read_folder_settings(folder, "language model"))
        template = _tried(found, lambda: read_chat_template(folder))
    found.template = None if template is None else "chat template"


def _explain_speech(found: Explanation, folder: Path, config: TranscriberConfig) -> None:
    """Add what only transcribers have."""
    seconds = 2 * config.source_positions / FRAMES_PER_SECOND
    found.settings = [f"{config.mels} mel bands", f"windows of {seconds:g} seconds"]
    tokenizer = _tokenizer(found, lambda: read_tokenizer(folder))
    found.ends = _ends(tokenizer)
    _tried(found, lambda: check_speech_processor(folder, config))
    _tried(found, lambda: read_folder_settings(folder, "transcriber"))
    if tokenizer is None:
        return
    tokens = _tried(found, lambda: read_speech_tokens(folder, tokenizer, config))
    if tokens is not None:
        languages = f"{len(tokens.languages)} languages" if tokens.languages else "one language"
        found.settings += [languages] if tokens.translate is None else [languages, "translation"]


def _ends(tokenizer: TextTokenizer | EncoderTokenizer | None) -> list[int]:
    if tokenizer is None or isinstance(tokenizer, EncoderTokenizer):
        return []
    return [*tokenizer.ends]


def _tokenizer(found: Explanation, read: Callable[[], C]) -> C | None:
    """Return the tokenizer that a reader returns, with its size added; None if it is missing."""
    tokenizer = _tried(found, read)
    if isinstance(tokenizer, (MissingTokenizer, MissingEncoderTokenizer)):
        found.problems.append(str(tokenizer.missing))
        return None
    if tokenizer is not None:
        found.tokenizer = f"{tokenizer.size:,} tokens"
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
