"""The image encoder that a run starts from, and the settings that it decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.bundle import ImageEncoding
from headway.data.image_reader import ImageReader
from headway.errors import UsageError
from headway.tasks.image_config import SHAPE, ImageEncoderSettings
from headway.tasks.opening import load


def open_image_start(name: str | None, what: str) -> ImageEncoding | None:
    """The model to start from, if one is named. UsageError if it encodes no images.

    what: the model that is made from it, for the message.
    """
    if name is None:
        return None
    start = load(name)
    if not isinstance(start, ImageEncoding):
        raise UsageError(
            f"{name} holds a {start.kind}; {what} is made from an image encoder or a classifier of "
            "pictures"
        )
    return start


def decided_settings(
    model: ImageEncoderSettings, reader: ImageReader, start: ImageEncoding | None
) -> dict[str, Any]:
    """Settings of the model that the images and the start decide. UsageError if another value than
    the start's was requested."""
    defaults = type(model)()
    decided = {}
    if start is not None:
        decided = settings_of_start("model", model, defaults, start.vit.config, SHAPE)
    return decided | size_settings("model", reader)


def size_settings(key: str, reader: ImageReader) -> dict[str, Any]:
    """The settings, under `key`, of the size and the channels of images."""
    width = None if reader.width == reader.height else reader.width
    size = {"image_size": reader.height, "image_width": width, "channels": reader.channels}
    return {f"{key}.{name}": value for name, value in size.items()}


def settings_of_start(
    key: str, requested: Any, defaults: Any, start: Any, names: Sequence[str]
) -> dict[str, Any]:
    """The settings, under `key`, of the model to start from. UsageError if another value was
    requested, which is not the default either."""
    for name in names:
        value, of_start = getattr(requested, name), getattr(start, name)
        if value not in (getattr(defaults, name), of_start) and name != "image_width":
            raise UsageError(f"{key}.{name}={value}, and the model to start from has {of_start}")
    return {f"{key}.{name}": getattr(start, name) for name in names}
