"""The JSON schema of a configuration, by which editors complete and check its YAML file.

Types, limits, names, help and defaults are those of the fields (`base.settings`).
"""

import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from headway.base.settings import MOST, Configuration, Field, fields_of, plain

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The name of the dialect, which is an address that nothing requests."""
_LIMITS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", Path: "string"}

Schema = dict[str, Any]


def schema_of(config: Configuration, title: str) -> Schema:
    """Return the schema of the YAML files of a configuration; its values are the defaults.

    A setting of a section may be nested (optimizer: {lr: 1e-3}) or dotted (optimizer.lr: 1e-3).
    """
    root: Schema = {"$schema": DIALECT, "title": title, **_section()}
    dotted: Schema = {}
    for key, field in fields_of(config).items():
        *sections, name = key.split(".")
        node, pointer = root, "#"
        for section in sections:
            node = node["properties"].setdefault(section, _section())
            pointer += f"/properties/{section}"
        node["properties"][name] = schema_of_field(field)
        if sections:
            dotted[key] = {"$ref": f"{pointer}/properties/{name}"}
    root["properties"] |= dotted
    return root


def _section() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def schema_of_field(field: Field) -> Schema:
    """Return the schema of one setting, with its help and its default."""
    allowed = _schema_of_type(field.type)
    if field.names is not None:
        allowed = {"enum": [*field.names, *([None] if _is_optional(field.type) else [])]}
    limits = {_LIMITS[name]: n for name, n in field.limits.items() if abs(n) != MOST}
    return {**allowed, **_plain(limits), "description": field.help, "default": plain(field.default)}


def _plain(limits: Mapping[str, float | int]) -> Schema:
    """Return limits as plain numbers: `Most` is an int with a reason."""
    return {name: int(n) if isinstance(n, int) else n for name, n in limits.items()}


def _is_optional(kind: object) -> bool:
    return type(None) in get_args(kind)


def _schema_of_type(kind: object) -> Schema:
    """Return what YAML values of a type are: those that `base.settings` accepts without a doubt."""
    if kind is type(None):
        return {"type": "null"}
    if get_origin(kind) in (typing.Union, types.UnionType):
        parts = [_schema_of_type(part) for part in get_args(kind)]
        if all(set(part) == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_origin(kind) is tuple:  # also as one text, separated by commas
        items = {"type": "array", "items": _schema_of_type(get_args(kind)[0])}
        return {"anyOf": [items, {"type": "string"}]}
    assert isinstance(kind, type)
    return {"type": _TYPES[kind]}
