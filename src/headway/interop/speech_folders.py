"""What a Whisper folder has besides weights and tokenizer: its spectrogram, and the tokens that say
what to write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import json_bytes, read_json, write_file
from headway.data.speech import FFT, FRAMES_PER_SECOND, HOP, RATE
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.generation_config import CONFIG_FILE, GenerationDefaults
from headway.interop.generation_config import FILE as GENERATION_FILE
from headway.interop.hf_config import HFConfig
from headway.interop.hf_export import check_tokenizer, write_tokenizer
from headway.interop.hf_folders import write, write_generation_config
from headway.interop.ignored_keys import PROCESSOR
from headway.interop.preprocessor_config import FILE as PROCESSOR_FILE
from headway.models import Transcriber, TranscriberConfig
from headway.text import MissingTokenizer, PretrainedTokenizer, TextTokenizer

MULTILINGUAL = 51_865
"""Vocabulary sizes from here on are those of multilingual models. Radford et al. 2023."""
_START, _PLAIN = "<|startoftranscript|>", "<|notimestamps|>"
_TASKS = ("transcribe", "translate")
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


@dataclass(frozen=True, kw_only=True)
class SpeechTokens:
    """The tokens that a transcriber reads before it writes: start, language, task, no timestamps.

    languages: code of a language -> its token; empty for a model of English alone, which has no
    tasks, either. latest_start: the greatest time at which the first words of a window may begin,
    in steps of 0.02 seconds; None for any. The tokens after `no_timestamps` are times: 0.00, 0.02,
    ... seconds from the start of the window.
    """

    start: int
    languages: Mapping[str, int]
    transcribe: int | None
    translate: int | None
    no_timestamps: int
    latest_start: int | None = None

    @property
    def first_time(self) -> int:
        """The token of the time 0.00."""
        return self.no_timestamps + 1

    def prompt(self, language: str | None, *, translate: bool, timestamps: bool) -> list[int]:
        """Return the tokens that the decoder reads first. language: None for a model of one."""
        prompt = [self.start]
        if language is not None:
            prompt.append(self.languages[language])
            task = self.translate if translate else self.transcribe
            prompt += [] if task is None else [task]
        return prompt if timestamps else [*prompt, self.no_timestamps]


def read_speech_tokens(
    folder: Path, tokenizer: PretrainedTokenizer | MissingTokenizer, config: TranscriberConfig
) -> SpeechTokens:
    """Read the tokens from generation_config.json and config.json; those that old folders do not
    name there have their usual names in the tokenizer.

    Raises DataError for a token that is missing or outside the vocabulary.
    """
    where = folder / GENERATION_FILE
    contents = read_json(where) if where.exists() else {}
    model = read_json(folder / CONFIG_FILE)
    if not isinstance(contents, dict) or not isinstance(model, dict):
        raise DataError("must be a JSON object (names and values)", str(folder))
    values = HFConfig({**model, **contents}, str(where))
    start = values.values.get("decoder_start_token_id")
    named = _Named(tokenizer, config.vocabulary, str(where))
    languages = _languages(values, named)
    tasks = values.values.get("task_to_id")
    tasks = tasks if isinstance(tasks, dict) else {}
    found = [named.checked(tasks.get(name, named.id(f"<|{name}|>"))) for name in _TASKS]
    plain = values.values.get("no_timestamps_token_id", named.id(_PLAIN))
    latest = values.values.get("max_initial_timestamp_index")
    if latest is not None and (type(latest) is not int or latest < 0):
        raise values.refusal("max_initial_timestamp_index", latest, "a whole number")
    return SpeechTokens(
        start=named.required(named.id(_START) if start is None else start, _START),
        languages=languages,
        transcribe=found[0] if languages else None,
        translate=found[1] if languages else None,
        no_timestamps=named.required(plain, _PLAIN),
        latest_start=latest,
    )


def _languages(values: HFConfig, named: _Named) -> dict[str, int]:
    """Return code -> token. A folder that names no languages has them if its vocabulary is that of
    a multilingual model."""
    if values.values.get("is_multilingual") is False:
        return {}
    listed = values.values.get("lang_to_id")
    if listed is None:
        if named.size < MULTILINGUAL:
            return {}
        listed = named.languages()
    codes = [_LANGUAGE.fullmatch(name) for name in listed] if isinstance(listed, dict) else [None]
    if not all(codes):
        raise values.refusal("lang_to_id", listed, "an object of <|code|> and ids")
    tokens = [named.required(token, "lang_to_id") for token in listed.values()]
    return {code[1]: token for code, token in zip(codes, tokens, strict=True) if code}


@dataclass(frozen=True)
class _Named:
    """The named tokens of a tokenizer. size: of the vocabulary of the model."""

    tokenizer: PretrainedTokenizer | MissingTokenizer
    size: int
    where: str

    def id(self, name: str) -> int | None:
        if isinstance(self.tokenizer, MissingTokenizer):
            return None
        ids = self.tokenizer.encode_with_special_tokens(name)
        return ids[0] if len(ids) == 1 else None

    def languages(self) -> dict[str, int]:
        """Return the tokens between the start and the first task, which are languages."""
        first, after = self.id(_START), self.id("<|translate|>")
        ids = range(0 if first is None else first + 1, 0 if after is None else after)
        names = self.tokenizer.token_strings(ids)
        return dict(zip(names, ids, strict=True))

    def checked(self, token: object) -> int | None:
        if token is None:
            return None
        if type(token) is not int or not 0 <= token < self.size:
            raise DataError(f"{token!r:.40} is no token: there are {self.size:,}", self.where)
        return token

    def required(self, token: object, name: str) -> int:
        found = self.checked(token)
        if found is None:
            raise DataError(f"there is no token {name}", self.where)
        return found


def check_speech_processor(folder: Path, config: TranscriberConfig) -> None:
    """Raise DataError if preprocessor_config.json describes another spectrogram than the one that
    Headway computes for the model. A folder without the file has that one."""
    path = folder / PROCESSOR_FILE
    if not path.exists():
        return
    hf_config = HFConfig.load(path)
    for key, value in _processor(config).items():
        hf_config.must_be(key, value)
    hf_config.check_all_read(PROCESSOR)


def _processor(config: TranscriberConfig) -> dict[str, object]:
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": config.mels,
        "sampling_rate": RATE,
        "hop_length": HOP,
        "n_fft": FFT,
        "chunk_length": 2 * config.source_positions // FRAMES_PER_SECOND,
        "padding_value": 0.0,
        "dither": 0.0,
        "do_normalize": False,
    }


def write_transcriber(
    model: Transcriber,
    tokenizer: TextTokenizer,
    tokens: SpeechTokens,
    folder: str | Path,
    family: str | None = None,
    settings: FolderSettings = NO_SETTINGS,
) -> str:
    """Write a Whisper folder for transformers; return the name of its class there.

    settings: those of the pretrained folder that the model is from. Raises UsageError for a
    tokenizer that cannot be represented and for a folder with a model; HeadwayError if the
    tokenizer in the folder gives texts other ids.
    """
    folder = Path(folder)
    ids = {
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.eos,
        "decoder_start_token_id": tokens.start,
    }
    written = write(model, folder, family, ids)
    values = dict(settings.generation.values) if settings.generation is not None else {}
    generation = GenerationDefaults(values={**_generation(tokens, model.config), **values})
    write_generation_config(ids, tokenizer.ends, FolderSettings(generation=generation), folder)
    write_file(folder / PROCESSOR_FILE, json_bytes(_processor(model.config)))
    write_tokenizer(tokenizer, folder, model.config.max_length)
    check_tokenizer(tokenizer, folder, str(folder))
    return written


def _generation(tokens: SpeechTokens, config: TranscriberConfig) -> dict[str, object]:
    """Return the keys of generation_config.json that `read_speech_tokens` reads."""
    tasks = {"transcribe": tokens.transcribe, "translate": tokens.translate}
    values: dict[str, object] = {
        "is_multilingual": bool(tokens.languages),
        "no_timestamps_token_id": tokens.no_timestamps,
        "max_length": config.max_length,
        "return_timestamps": False,
    }
    if tokens.latest_start is not None:
        values["max_initial_timestamp_index"] = tokens.latest_start
    if not tokens.languages:
        return values
    named = {f"<|{code}|>": token for code, token in tokens.languages.items()}
    return {**values, "lang_to_id": named, "task_to_id": tasks}
