"""Requests of the page, validated, since they come from a browser."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from headway.base.errors import DataError

TEXT = 20_000  # characters
HEADS = 4096


@dataclass(frozen=True, kw_only=True)
class InspectionRequest:
    """A request of the page.

    text, second, target, image: the input to inspect, as the model needs them. heads: those to
    switch off, as (maps, layer, head) counted from 0. maps, layer, head, position: the computation
    of a walk.
    """

    text: str | None = None
    second: str | None = None
    target: str | None = None
    image: bytes | None = None
    heads: tuple[tuple[str, int, int], ...] = ()
    maps: str | None = None
    layer: int = 0
    head: int = 0
    position: int = 0


def parse(request: object) -> InspectionRequest:
    """Parse a request from JSON. DataError names the key with an invalid value."""
    if not isinstance(request, Mapping):
        raise DataError("a request must be a JSON object")
    known = {"text", "second", "target", "image", "heads", "map", "layer", "head", "position"}
    if unknown := sorted(set(request) - known):
        raise DataError(f"unknown key {unknown[0]!r}: must be one of {', '.join(sorted(known))}")
    return InspectionRequest(
        text=_text(request, "text"),
        second=_text(request, "second"),
        target=_text(request, "target"),
        image=_image(request.get("image")),
        heads=_heads(request.get("heads", [])),
        maps=_text(request, "map"),
        **{name: _number(request.get(name, 0), name) for name in ("layer", "head", "position")},
    )


def _text(request: Mapping[str, object], name: str) -> str | None:
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise DataError(f"{name!r} must be a text")
    if len(value) > TEXT:
        raise DataError(f"{name!r} has {len(value):,} characters; at most {TEXT:,} are allowed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name!r} has a lone surrogate, which is not a character") from None
    return value


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**6:
        raise DataError(f"{name!r} must be a whole number from 0 to 999,999")
    return value


def _image(value: object) -> bytes | None:
    """Return the image, or the sound, in a data: URL."""
    if value is None:
        return None
    # a browser that does not know the type of a file sends application/octet-stream, or no type
    if not isinstance(value, str) or not value.startswith("data:"):
        raise DataError("'image' must be a data: URL of an image")
    _, _, coded = value.partition(";base64,")
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("'image' must be encoded in base64") from None


def _heads(value: object) -> tuple[tuple[str, int, int], ...]:
    if not isinstance(value, list) or len(value) > HEADS:
        raise DataError(f"'heads' must be a list of at most {HEADS:,} heads")
    heads = []
    for head in value:
        if not isinstance(head, list) or len(head) != 3 or not isinstance(head[0], str):
            raise DataError("each of 'heads' must be [map, layer, head]")
        heads.append((head[0], _number(head[1], "layer"), _number(head[2], "head")))
    return tuple(heads)
