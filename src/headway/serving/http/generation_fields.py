"""The fields of a request for text, and the settings of generation that follow from them."""

import re
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from headway.base.errors import UsageError
from headway.bundle import TextGenerating
from headway.decoding import Bias, Forbidden, GenerationConfig, Only, Rule
from headway.serving.http.formats import FormatFields
from headway.serving.http.known_fields import KnownFields, Refused
from headway.serving.http.replies import ApiError
from headway.serving.http.served import ServedModel
from headway.text import TextTokenizer

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
MOST_STOPS, MOST_BIASES = 16, 1024
Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Tokens = Annotated[list[Token], msgspec.Meta(max_length=2**17)]
ONLY_SAMPLED: KnownFields = {
    "temperature": Refused((0, 1)),
    "top_p": Refused((1,)),
    "top_k": Refused((0, -1)),
    "min_p": Refused((0,)),
    "typical_p": Refused((1,)),
    "stop_token_ids": Refused(([],)),
    "ignore_eos": Refused((False,)),
    "include_stop_str_in_output": Refused((False,)),
    "allowed_token_ids": Refused(([],)),
    "bad_words": Refused(([],)),
    "logit_bias": Refused(({},)),
    "stream": Refused((False,)),
}
"""Fields that beam search does not take."""
FIELDS = {"typical": "typical_p", "samples": "n", "beam": "best_of", "alternatives": "logprobs"}
"""Settings of `GenerationConfig` whose fields have other names."""
ONLY_WITH_BEAMS: KnownFields = {
    "length_penalty": Refused((1,)),
    "early_stopping": Refused((False,)),
}


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """include_usage: whether the last event before the end has the numbers of tokens.

    include_obfuscation, continuous_usage_stats: are refused if they are true.
    """

    include_usage: bool = False
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(FormatFields, kw_only=True):
    """Fields that completions and chat share: OpenAI's, then those of other servers."""

    model: str | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    top_p: Share | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    stop: str | list[str] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, msgspec.Meta(ge=-100, le=100)]] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None
    min_p: Share | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None
    min_tokens: Annotated[int, msgspec.Meta(ge=0, le=2**20)] | None = None
    use_beam_search: bool | None = None
    best_of: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    length_penalty: Annotated[float, msgspec.Meta(ge=0, le=10)] | None = None
    early_stopping: bool | None = None
    cache_prompt: bool | None = None
    cache_salt: str | None = None
    typical_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    stop_token_ids: Tokens | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    allowed_token_ids: Tokens | None = None
    bad_words: Annotated[list[str], msgspec.Meta(max_length=MOST_BIASES)] | None = None
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None

    @property
    def beam(self) -> int:
        """The beam width; 1 is no beam search."""
        return (self.best_of or max(4, self.n or 1)) if self.use_beam_search else 1

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        given = self.stop if isinstance(self.stop, list) else [self.stop] if self.stop else []
        return tuple(given)


def check_fields(fields: GenerationFields) -> None:
    """Raise ApiError 400 for a field that has no effect beside the others, and is not neutral."""
    unusable = ONLY_SAMPLED if fields.use_beam_search else ONLY_WITH_BEAMS
    needed = "without use_beam_search" if fields.use_beam_search else "with use_beam_search"
    for name, treatment in unusable.items():
        assert isinstance(treatment, Refused)
        if not treatment.accepts(getattr(fields, name)):
            raise ApiError(400, f"{name} is available only {needed}", param=name)
    if not fields.use_beam_search and fields.best_of not in (None, fields.n or 1):
        raise ApiError(400, "best_of must be n, except with use_beam_search", param="best_of")
    if len(fields.stops) > MOST_STOPS:
        raise ApiError(400, f"stop has more than {MOST_STOPS} strings", param="stop")
    if fields.logit_bias is not None and len(fields.logit_bias) > MOST_BIASES:
        raise ApiError(400, f"logit_bias has more than {MOST_BIASES} tokens", param="logit_bias")
    if fields.truncate_prompt_tokens == 0:
        message = "truncate_prompt_tokens must be at least 1, or -1 for the context of the model"
        raise ApiError(400, message, param="truncate_prompt_tokens")
    options = fields.stream_options or StreamOptions()
    for name in ("include_obfuscation", "continuous_usage_stats"):
        if getattr(options, name):
            message = f"stream_options.{name} is not available on this server"
            raise ApiError(400, message, param="stream_options")


def generation_config(
    bundle: TextGenerating, fields: GenerationFields, max_tokens: int, alternatives: int
) -> GenerationConfig:
    """Return the settings of generation: those of the request, completed by the model's defaults.

    Raises ApiError 400 for values that exclude each other.
    """
    changes = {
        "max_tokens": max_tokens,
        "min_tokens": fields.min_tokens,
        # the limit of top-p sampling at 0 is greedy
        "temperature": 0.0 if fields.top_p == 0 else fields.temperature,
        "top_k": fields.top_k if (fields.top_k or 0) > 0 else None,
        "top_p": fields.top_p or None,
        "min_p": fields.min_p,
        "typical": fields.typical_p,
        "repetition_penalty": fields.repetition_penalty,
        "frequency_penalty": fields.frequency_penalty,
        "presence_penalty": fields.presence_penalty,
        "samples": fields.n,
        "seed": (time.time_ns() if fields.seed is None else fields.seed) % 2**62,
        "stop": fields.stops or None,
        "beam": fields.beam,
        "length_penalty": fields.length_penalty,
        "early_stopping": fields.early_stopping,
        "alternatives": alternatives,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return bundle.with_defaults(given, "the request", GenerationConfig(temperature=1.0))
    except UsageError as error:
        setting = re.split(r"\W", error.what, maxsplit=1)[0]
        name = FIELDS.get(setting, setting)
        message = name + error.what.removeprefix(setting)
        raise ApiError(400, message, param=name) from error


def max_tokens_of(
    name: str, value: int, prompts: Sequence[Sequence[int]], served: ServedModel
) -> int:
    """Return the maximum number of tokens of an output. -1 is what the context has room for.

    Raises ApiError 400 for 0, which names the field `name`.
    """
    if value == 0:
        raise ApiError(400, f"{name} must be at least 1, or -1 for no limit", param=name)
    return served.room(min(map(len, prompts))) if value == -1 else value


def truncated(prompt: list[int], fields: GenerationFields, served: ServedModel) -> list[int]:
    """Return the last `truncate_prompt_tokens` tokens of a prompt; all of them if it is unset."""
    count = fields.truncate_prompt_tokens
    if count is None:
        return prompt
    return prompt[-(served.context if count == -1 else count) :]


def token_rules(fields: GenerationFields, tokenizer: TextTokenizer) -> list[Rule]:
    """Return the rules about single tokens and words. ApiError 400 for a token that is none of the
    model."""
    rules: list[Rule] = []
    for name in ("stop_token_ids", "allowed_token_ids"):
        for token in getattr(fields, name) or ():
            if token >= tokenizer.size:
                raise _no_token(name, str(token), tokenizer.size)
    if fields.allowed_token_ids:
        rules.append(Only(sorted(set(fields.allowed_token_ids))))
    if biases := token_biases(fields, tokenizer.size):
        rules.append(Bias(biases))
    if not all(word.strip() for word in fields.bad_words or ()):
        raise ApiError(400, "bad_words must have no empty texts", param="bad_words")
    words = [word.strip() for word in fields.bad_words or ()]
    sequences = [tokenizer.encode(form) for word in words for form in (word, " " + word)]
    if sequences:
        rules.append(Forbidden(sequences))
    return rules


def _no_token(name: str, token: str, vocabulary: int) -> ApiError:
    message = f"{name}: {token[:20]!r} is no token from 0 to {vocabulary - 1:,}"
    return ApiError(400, message, param=name)


def token_biases(fields: GenerationFields, vocabulary: int) -> dict[int, float]:
    """Return token -> bias. Raises ApiError 400 for a key that is no token of the model."""
    biases = {}
    for name, value in (fields.logit_bias or {}).items():
        is_token = name.isascii() and name.isdecimal() and len(name) < 10
        if not is_token or int(name) >= vocabulary:
            raise _no_token("logit_bias", name, vocabulary)
        biases[int(name)] = value
    return biases
