"""The fields of a request for text, and the settings of generation that follow from them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from headway.bundle import TextGenerating
from headway.decoding import GenerationConfig
from headway.errors import UsageError
from headway.serving.http.replies import ApiError

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**20)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
MOST_STOPS, MOST_BIASES = 16, 1024


class StreamOptions(msgspec.Struct):
    """include_usage: whether the last event before the end has the numbers of tokens."""

    include_usage: bool = False


class JsonSchema(msgspec.Struct, kw_only=True):
    """A JSON schema. name, description, strict: are ignored; a schema is always enforced."""

    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """The form of outputs: any text, a JSON object, or JSON that a schema describes."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class GenerationFields(msgspec.Struct, kw_only=True):
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
    user: str | None = None
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
    response_format: ResponseFormat | None = None

    @property
    def beam(self) -> int:
        """The beam width; 1 is no beam search."""
        return (self.best_of or max(4, self.n or 1)) if self.use_beam_search else 1

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        given = self.stop if isinstance(self.stop, list) else [self.stop] if self.stop else []
        return tuple(given)


def check_unsupported(fields: GenerationFields, known: Mapping[str, Any]) -> None:
    """Raise ApiError 400 for a field that has no effect here and is not at its default.

    known: name -> (value, default) of further fields of the request.
    """
    for name, (value, default) in known.items():
        if value is not None and value not in default:
            raise ApiError(400, f"{name} is not available on this server", param=name)
    if fields.best_of is not None and not fields.use_beam_search and fields.best_of != fields.n:
        raise ApiError(400, "best_of must be n, except with use_beam_search", param="best_of")
    if fields.use_beam_search and fields.stream:
        raise ApiError(400, "beam search cannot be streamed", param="stream")
    if len(fields.stops) > MOST_STOPS:
        raise ApiError(400, f"stop has more than {MOST_STOPS} strings", param="stop")
    if fields.logit_bias is not None and len(fields.logit_bias) > MOST_BIASES:
        raise ApiError(400, f"logit_bias has more than {MOST_BIASES} tokens", param="logit_bias")


def generation_config(
    bundle: TextGenerating, fields: GenerationFields, max_tokens: int, alternatives: int
) -> GenerationConfig:
    """Return the settings of generation: those of the request, completed by the model's defaults.

    Raises ApiError 400 for values that exclude each other.
    """
    changes = {
        "max_tokens": max_tokens,
        "min_tokens": fields.min_tokens,
        "temperature": fields.temperature,
        "top_k": fields.top_k if (fields.top_k or 0) > 0 else None,
        "top_p": fields.top_p or None,
        "min_p": fields.min_p,
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
        name = re.match(r"\w*", error.what)
        raise ApiError(400, error.what, param=name and name.group()) from error


def token_biases(fields: GenerationFields, vocabulary: int) -> dict[int, float]:
    """Return token -> bias. Raises ApiError 400 for a key that is no token of the model."""
    biases = {}
    for name, value in (fields.logit_bias or {}).items():
        is_token = name.isascii() and name.isdecimal() and len(name) < 10
        if not is_token or int(name) >= vocabulary:
            message = f"logit_bias: {name[:20]!r} is no token from 0 to {vocabulary - 1:,}"
            raise ApiError(400, message, param="logit_bias")
        biases[int(name)] = value
    return biases
