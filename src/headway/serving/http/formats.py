"""The form of outputs that a request asks for, under each of the names that clients have for it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from headway.decoding import Rule
from headway.serving.grammar import ANY_OBJECT, Grammar
from headway.serving.http.known_fields import KnownFields, Refused, RequestBody, refuse
from headway.serving.http.replies import ApiError

MOST_CHOICES = 1024
STRUCTURED: KnownFields = {
    "grammar": Refused((), "use json, regex or choice"),
    "structural_tag": Refused((), "use json, regex or choice"),
    "disable_fallback": Refused((False,)),
    "disable_any_whitespace": Refused((False,)),
    "disable_additional_properties": Refused((False,)),
    "whitespace_pattern": Refused(),
}
"""Fields of `structured_outputs` that are not honoured."""


class JsonSchema(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON schema. name, description, strict: are ignored; a schema is always enforced."""

    schema: dict[str, object]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of outputs in OpenAI's API: any text, a JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class TypedGrammar(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of outputs in text-generation-inference's API: `value` is a schema, or a regular
    expression."""

    type: Literal["json", "json_schema", "regex"]
    value: str | dict[str, object]


class StructuredOutputs(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of outputs in vLLM's API."""

    json: str | dict[str, object] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    json_object: bool | None = None


class FormatFields(RequestBody, kw_only=True):
    """The fields of a request that fix the form of its outputs."""

    response_format: ResponseFormat | None = None
    structured_outputs: dict[str, object] | None = None
    guided_json: str | dict[str, object] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    grammar: TypedGrammar | None = None


@dataclass(frozen=True)
class Format:
    """A form of outputs. field: the field of the request that asks for it. value: a schema, a
    regular expression, or the texts of which an output is one."""

    field: str
    kind: Literal["schema", "regex", "choice"]
    value: object

    def rule(self, grammar: Grammar) -> Rule:
        """Return the rule that allows only outputs of this form. UsageError if there is none."""
        made: dict[str, Callable[[Any], Rule]] = {
            "schema": grammar.of_schema,
            "regex": grammar.of_regex,
            "choice": grammar.of_choice,
        }
        return made[self.kind](self.value)


def requested_format(fields: FormatFields) -> Format | None:
    """Return the form that a request asks for. ApiError 400 for two, and for an invalid one."""
    wanted = [
        *_response_format(fields.response_format),
        *_structured(fields.structured_outputs),
        *_schema("guided_json", fields.guided_json),
        *_regex("guided_regex", fields.guided_regex),
        *_choice("guided_choice", fields.guided_choice),
        *_typed_grammar(fields.grammar),
    ]
    if len(wanted) > 1:
        names = " and ".join(form.field for form in wanted[:2])
        message = f"a request has one form of outputs, and {names} ask for two"
        raise ApiError(400, message, param=wanted[1].field)
    return wanted[0] if wanted else None


def _response_format(wanted: ResponseFormat | None) -> list[Format]:
    if wanted is None or wanted.type == "text":
        return []
    if wanted.type == "json_object":
        return _schema("response_format", ANY_OBJECT)
    if wanted.json_schema is None:
        raise ApiError(400, "json_schema is missing", param="response_format")
    return _schema("response_format", wanted.json_schema.schema)


def _structured(values: dict[str, object] | None) -> list[Format]:
    name = "structured_outputs"
    own = {}
    for key, value in (values or {}).items():
        if key not in STRUCTURED:
            own[key] = value
            continue
        try:
            refuse(STRUCTURED, key, value)
        except ApiError as error:
            raise ApiError(400, f"{name}.{error.message}", param=name) from None
    try:
        wanted = msgspec.convert(own, StructuredOutputs)
    except msgspec.ValidationError as error:
        raise ApiError(400, f"{name}: {error}", param=name) from None
    return [
        *_schema(name, wanted.json),
        *_regex(name, wanted.regex),
        *_choice(name, wanted.choice),
        *(_schema(name, ANY_OBJECT) if wanted.json_object else []),
    ]


def _typed_grammar(wanted: TypedGrammar | None) -> list[Format]:
    if wanted is None:
        return []
    if wanted.type == "regex":
        if not isinstance(wanted.value, str):
            message = "grammar.value must be a regular expression, a text"
            raise ApiError(400, message, param="grammar")
        return _regex("grammar", wanted.value)
    value: object = wanted.value
    if wanted.type == "json_schema" and isinstance(value, dict):
        value = value.get("schema", value)
    return _schema("grammar", value)


def _schema(field: str, value: object) -> list[Format]:
    """Return the form of a JSON schema, which may be written as a text."""
    if value is None:
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"{field} is no JSON schema: {error}", param=field) from None
    return [Format(field, "schema", value)]


def _regex(field: str, value: str | None) -> list[Format]:
    return [] if value is None else [Format(field, "regex", value)]


def _choice(field: str, value: list[str] | None) -> list[Format]:
    if value is None:
        return []
    if not 1 <= len(value) <= MOST_CHOICES or not all(value):
        message = f"{field} must have 1 to {MOST_CHOICES:,} texts that are not empty"
        raise ApiError(400, message, param=field)
    return [Format(field, "choice", value)]
