"""Requests of the page, validated, since they come from a browser."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated

import msgspec

from headway.base.errors import DataError

Text = Annotated[str, msgspec.Meta(max_length=20_000)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=10**6)]


class InspectionRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A request of the page.

    text, second, target, image: the input to inspect, as the model needs them. heads: those to
    switch off, as (maps, layer, head) counted from 0. maps, layer, head, position: the computation
    of a walk.
    """

    text: Text | None = None
    second: Text | None = None
    target: Text | None = None
    image: bytes | None = None
    heads: Annotated[tuple[tuple[str, Index, Index], ...], msgspec.Meta(max_length=4096)] = ()
    maps: Text | None = msgspec.field(default=None, name="map")
    layer: Index = 0
    head: Index = 0
    position: Index = 0


def parse(request: object) -> InspectionRequest:
    """Parse a request from JSON. DataError names the key with an invalid value."""
    if isinstance(request, Mapping) and request.get("image") is not None:
        request = {**request, "image": _image(request["image"])}
    try:
        parsed = msgspec.convert(request, InspectionRequest)
        for name in ("text", "second", "target", "maps"):
            (getattr(parsed, name) or "").encode()
    except msgspec.ValidationError as error:
        raise DataError(f"the request of the page is invalid: {error}") from None
    except UnicodeEncodeError:
        raise DataError(f"{name!r} has a lone surrogate, which is not a character") from None
    return parsed


def _image(value: object) -> bytes:
    """Return the image, or the sound, in a data: URL."""
    # a browser that does not know the type of a file sends application/octet-stream, or no type
    if not isinstance(value, str) or not value.startswith("data:"):
        raise DataError("'image' must be a data: URL of an image")
    _, _, coded = value.partition(";base64,")
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("'image' must be encoded in base64") from None
