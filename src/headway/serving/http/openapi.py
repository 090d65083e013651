"""GET /openapi.json: the description of all routes, made from the types that check the requests."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.base.settings import fields_of
from headway.serving.http.predictions import takes_files
from headway.serving.http.served import ServedModels
from headway.tasks.task import AnyPredicts

REFUSALS = {
    400: "A field is not valid, or the model cannot do this; `param` names the field.",
    401: "The key is missing or wrong.",
    403: "The Host or Origin is not one of this server.",
    404: "There is no such model or route.",
    405: "The route has other methods.",
    413: "The body is too large.",
    415: "The Content-Type is not known.",
    429: "The queue of the model is full; Retry-After has the seconds to wait.",
    500: "An internal error.",
    503: "The server ends, or a model is not healthy.",
    504: "The request took longer than the server allows.",
}


@dataclass(frozen=True)
class Endpoint:
    """A route. handler: answers it. body: the type of its body; None if it has none. takes, media:
    the media types of its body and of its reply."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    body: type | None = None
    takes: str = "application/json"
    streams: bool = False
    media: str = "application/json"


def describe(endpoints: Sequence[Endpoint], models: ServedModels) -> dict[str, object]:
    """Return the OpenAPI document of the routes."""
    types = [endpoint.body for endpoint in endpoints if endpoint.body is not None]
    bodies, components = msgspec.json.schema_components(
        types, schema_hook=_schema_of, ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip(types, bodies, strict=True))
    names = {"enum": [None, *(model.name for model in models)]}
    for component in components.values():
        if "model" in component.get("properties", {}):
            component["properties"]["model"] = names
    components["Error"] = _ERROR
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, by_type)
    for verb, tasks in _verbs(models).items():
        operation = paths[f"/{verb}"]["post"]
        able = [model.name for model in models if verb in model.verbs]
        named = {"name": "model", "in": "query", "schema": {"type": "string", "enum": able}}
        operation["parameters"] = [named]
        content = operation["requestBody"]["content"]
        content["application/json"]["schema"] = {"anyOf": [s for t in tasks for s in _forms(t)]}
        if any(takes_files(task) for task in tasks):
            binary = {"type": "string", "format": "binary"}
            content["application/octet-stream"] = {"schema": binary}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": version("headway")},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schema_of(kind: type) -> dict[str, object]:
    """Return the schema of a type that msgspec does not know: any JSON.

    It must not be empty: msgspec takes an empty schema for none.
    """
    assert kind is object, kind
    return {"description": "any JSON"}


_TEXT = {"type": ["string", "null"]}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": _TEXT,
                "code": _TEXT,
            },
        }
    },
}


def _operation(endpoint: Endpoint, bodies: Mapping[type, object]) -> dict[str, object]:
    media: dict[str, dict[str, object]] = {endpoint.media: {}}
    if endpoint.streams:
        media["text/event-stream"] = {}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "summary": (endpoint.handler.__doc__ or "").split("\n")[0],
        "responses": {
            "200": {"description": "The result.", "content": media},
            **{
                str(status): {"description": text, "content": error}
                for status, text in REFUSALS.items()
            },
        },
    }
    if endpoint.path in ("/health", "/ready"):
        operation["responses"]["503"]["content"] = {"application/json": {}}
    if endpoint.path == "/inspect":
        text = {"in": "query", "schema": {"type": "string"}}
        operation["parameters"] = [{"name": name, **text} for name in ("model", "text", "second")]
    if "{name" in endpoint.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [name]
    if endpoint.body is not None:
        schema = {"schema": bodies[endpoint.body]}
        operation["requestBody"] = {"required": True, "content": {endpoint.takes: schema}}
    return operation


def _verbs(models: ServedModels) -> dict[str, list[AnyPredicts]]:
    """Return verb -> how the tasks of the served models predict by it."""
    verbs: dict[str, list[AnyPredicts]] = {}
    for model in models:
        for verb, task in model.verbs.items():
            if task not in verbs.setdefault(verb, []):
                verbs[verb].append(task)
    return verbs


def _forms(task: AnyPredicts) -> list[dict[str, object]]:
    """Return the schemas of the requests to a task: with its options, and in a foreign form."""
    options = {
        name: {"description": field.help}
        for name, field in fields_of(task.options()).items()
        if "Path" not in str(field.type)
    }
    form: dict[str, object] = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": {"description": "a text, an object, a file in base64, or a list of them"},
            "parameters": {"type": ["object", "null"], "properties": options},
            "model": _TEXT,
            "form": {"enum": ["pipeline", "full"]},
        },
    }
    if task.foreign is None:
        return [form]
    return [form, {"type": "object", "required": ["q"], "properties": {"q": {}}}]
