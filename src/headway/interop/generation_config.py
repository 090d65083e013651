"""Read generation_config.json: how `generate` of transformers decodes with the model of a folder.

The keys become the defaults of Headway's predictions, but for those in `ignored_keys.GENERATION`.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headway.base.errors import DataError, HeadwayWarning
from headway.base.files import read_json
from headway.interop.hf_config import LARGEST, HFConfig
from headway.interop.ignored_keys import GENERATION, READ_GENERATION, ROLES

FILE = "generation_config.json"
CONFIG_FILE = "config.json"
Kind = Literal["language model", "translator", "captioner", "transcriber"]
TOP_K = 50
"""Default of `top_k` in transformers, if outputs are sampled."""


@dataclass(frozen=True, kw_only=True)
class GenerationDefaults:
    """How a model of another library decodes if a user does not choose otherwise.

    values: the contents of the file, for copies. is_chosen: whether they choose how to decode. If
    so, what they leave out is as in transformers; if not, as everywhere in Headway.

    beams, length_penalty, early_stopping: of beam search. samples: whether outputs are sampled,
    with temperature, top_k, top_p, min_p and typical_p. min_length and max_length count the tokens
    that the decoder reads first, min_new_tokens and max_new_tokens do not. forbidden: sequences of
    tokens that no output contains; forbidden_first: tokens with which none begins. forced_first:
    the token with which all begin. forced_end: tokens that end an output of maximum length.
    renormalise: see `Limits`. stop: stop strings.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    is_chosen: bool = False
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    samples: bool = False
    temperature: float = 1.0
    top_k: int = TOP_K
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat: int = 0
    min_length: int = 0
    max_length: int | None = None
    min_new_tokens: int = 0
    max_new_tokens: int | None = None
    forbidden: tuple[tuple[int, ...], ...] = ()
    forbidden_first: tuple[int, ...] = ()
    forced_first: int | None = None
    forced_end: tuple[int, ...] = ()
    renormalise: bool = False
    stop: tuple[str, ...] = ()

    @property
    def search(self) -> dict[str, Any]:
        """The options of beam search, by the names that translators and captioners share."""
        return {
            "beam": self.beams,
            "length_penalty": self.length_penalty,
            "early_stopping": self.early_stopping is True,
        }


def read_generation_defaults(folder: Path, kind: Kind) -> GenerationDefaults:
    """Read generation_config.json, or, if there is none, the same keys of config.json.

    A key that Headway cannot honour is a HeadwayWarning, or DataError if the outputs would be of
    another kind. kind: what the model of the folder does. Raises DataError for invalid values.
    """
    path = folder / FILE
    has_file = path.exists()
    contents = read_json(path if has_file else folder / CONFIG_FILE)
    if not isinstance(contents, dict):
        raise DataError("must be a JSON object (names and values)", str(path))
    if not has_file:  # old folders
        path = folder / CONFIG_FILE
        decoder = contents.get("decoder")
        inner = decoder if isinstance(decoder, dict) else {}
        known = {*GENERATION, *READ_GENERATION, *ROLES}
        contents = {key: value for key, value in {**inner, **contents}.items() if key in known}
    config = HFConfig(contents, str(path))
    defaults = _Reader(config, kind).defaults()
    config.check_all_read({**GENERATION, **dict.fromkeys(ROLES, GENERATION["use_cache"])})
    return defaults


@dataclass(frozen=True)
class _Reader:
    config: HFConfig
    kind: Kind

    def defaults(self) -> GenerationDefaults:
        config = self.config
        is_language_model = self.kind == "language model"
        read: dict[str, Any] = {
            "beams": config.whole("num_beams", 1, below=1025),
            "length_penalty": config.number("length_penalty", 1.0, high=10.0),
            "early_stopping": self._early_stopping(),
            "repetition_penalty": config.number("repetition_penalty", 1.0, low=1e-9),
            "no_repeat": self._count("no_repeat_ngram_size"),
            "min_length": self._count("min_length"),
            "min_new_tokens": self._count("min_new_tokens"),
            "max_length": self._optional("max_length"),
            "max_new_tokens": self._optional("max_new_tokens"),
            "forbidden_first": tuple(self._ids("begin_suppress_tokens")),
            "renormalise": config.flag("renormalize_logits", False),
        }
        if is_language_model:
            read |= self._sampling()
            read["stop"] = self._stop()
        else:
            read |= {
                "forced_first": next(iter(self._ids("forced_bos_token_id")), None),
                "forced_end": tuple(self._ids("forced_eos_token_id")),
            }
        chosen = any(
            value != getattr(GenerationDefaults, name)
            for name, value in read.items()
            if name not in ("forced_first", "forced_end")
        )
        return GenerationDefaults(
            values=dict(config.values),
            is_chosen=chosen or "do_sample" in config.values,
            forbidden=self._forbidden(),
            **read,
        )

    def _sampling(self) -> dict[str, Any]:
        """Return the settings of sampling, which transformers uses only if `do_sample` is true."""
        config = self.config
        if not config.flag("do_sample", False):
            return {}
        if config.values.get("num_beams", 1) != 1:
            text = "do_sample=True is ignored: Headway samples nothing in a beam search"
            warnings.warn(f"{config.where}: {text}", HeadwayWarning, stacklevel=4)
            return {}
        return {
            "samples": True,
            "temperature": config.number("temperature", 1.0, low=1e-9),
            "top_k": self._count("top_k", TOP_K),
            "top_p": config.number("top_p", 1.0, low=1e-9, high=1.0 + 1e-9),
            "min_p": config.number("min_p", 0.0, high=1.0 + 1e-9),
            "typical_p": config.number("typical_p", 1.0, low=1e-9, high=1.0 + 1e-9),
        }

    def _early_stopping(self) -> Any:
        value = self.config.values.get("early_stopping", False)
        if value != "never" and type(value) is not bool:
            raise self.config.refusal("early_stopping", value, "true, false or never")
        return value

    def _count(self, key: str, default: int = 0) -> int:
        """Return a whole number that may be 0, which means that there is none."""
        value = self.config.values.get(key, default)
        if type(value) is not int or not 0 <= value < LARGEST:
            raise self.config.refusal(key, value, f"a whole number from 0 and below {LARGEST:,}")
        return value

    def _optional(self, key: str) -> int | None:
        return self.config.whole(key) if key in self.config.values else None

    def _ids(self, key: str) -> list[int]:
        """Return the ids of a key: one, a list, or none."""
        value = self.config.values.get(key, [])
        ids = value if isinstance(value, list) else [value]
        if any(type(number) is not int or not 0 <= number < LARGEST for number in ids):
            raise self.config.refusal(key, value, "an id of a token, or a list of ids")
        return ids

    def _forbidden(self) -> tuple[tuple[int, ...], ...]:
        """Return the sequences of `bad_words_ids`, and each of `suppress_tokens`."""
        words = self.config.values.get("bad_words_ids", [])
        valid = isinstance(words, list) and all(
            isinstance(word, list) and word and all(type(i) is int and i >= 0 for i in word)
            for word in words
        )
        if not valid:
            raise self.config.refusal("bad_words_ids", words, "a list of lists of ids")
        ends = self.config.values.get("eos_token_id", [])
        single = [[end] for end in (ends if isinstance(ends, list) else [ends])]
        suppressed = [[number] for number in self._ids("suppress_tokens")]
        # as in transformers, no bad word is the end alone
        kept = [word for word in words if word not in single]
        return tuple(tuple(word) for word in (*kept, *suppressed))

    def _stop(self) -> tuple[str, ...]:
        value = self.config.values.get("stop_strings", [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(t, str) and t for t in texts):
            raise self.config.refusal("stop_strings", value, "a text, or a list of texts")
        return tuple(texts)
