"""What a page may ask, checked: it comes from a browser, and that is a stranger."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.errors import DataError

TEXT = 20_000  # characters
HEADS = 4096


@dataclass(frozen=True, kw_only=True)
class Question:
    """text, second, target, picture: what is looked at, as the model needs them. heads: (maps,
    layer, head) of those to be switched off, counted from 0. maps, layer, head, place: of a walk.
    """

    text: str | None = None
    second: str | None = None
    target: str | None = None
    picture: bytes | None = None
    heads: tuple[tuple[str, int, int], ...] = ()
    maps: str | None = None
    layer: int = 0
    head: int = 0
    place: int = 0


def parse(told: Any) -> Question:
    """A question from JSON. DataError names the key that is not what it must be."""
    if not isinstance(told, Mapping):
        raise DataError("a question is a JSON object")
    known = {"text", "second", "target", "picture", "heads", "map", "layer", "head", "place"}
    if unknown := sorted(set(told) - known):
        raise DataError(f"{unknown[0]!r} is not part of a question")
    return Question(
        text=_text(told, "text"),
        second=_text(told, "second"),
        target=_text(told, "target"),
        picture=_picture(told.get("picture")),
        heads=_heads(told.get("heads", [])),
        maps=_text(told, "map"),
        **{name: _number(told.get(name, 0), name) for name in ("layer", "head", "place")},
    )


def _text(told: Mapping[str, Any], name: str) -> str | None:
    value = told.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise DataError(f"{name} is no text")
    if len(value) > TEXT:
        raise DataError(f"{name} has {len(value):,} characters, at most {TEXT:,} are read")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name} holds half a character") from None
    return value


def _number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**6:
        raise DataError(f"{name} is no place")
    return value


def _picture(value: Any) -> bytes | None:
    """The bytes of a data: address."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("data:image/"):
        raise DataError("picture is no data: address of a picture")
    _, _, coded = value.partition(";base64,")
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("picture is no base64") from None


def _heads(value: Any) -> tuple[tuple[str, int, int], ...]:
    if not isinstance(value, list) or len(value) > HEADS:
        raise DataError("heads is no list of heads")
    found = []
    for one in value:
        if not isinstance(one, list) or len(one) != 3 or not isinstance(one[0], str):
            raise DataError("each of heads is [map, layer, head]")
        found.append((one[0], _number(one[1], "layer"), _number(one[2], "head")))
    return tuple(found)
