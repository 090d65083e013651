"""The pre-trained image encoder of a run, and the settings that it decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.base.errors import UsageError
from headway.bundle import ImageEncoding
from headway.data.image_reader import ImageReader
from headway.tasks.image_config import SHAPE, ImageEncoderSettings
from headway.tasks.opening import load


def load_image_encoder(name: str | None, model: str) -> ImageEncoding | None:
    """Load the pre-trained image encoder, if one is named.

    model: the model that is trained, in words, for the error. Raises UsageError if `name` is
    another kind of model.
    """
    if name is None:
        return None
    start = load(name, "cpu", dtype="float32")
    if not isinstance(start, ImageEncoding):
        raise UsageError(
            f"{name} holds a {start.kind}; {model} needs a pre-trained image encoder or image "
            "classifier",
            hint="headway train dino IMAGES trains an image encoder",
        )
    return start


def decided_settings(
    model: ImageEncoderSettings, reader: ImageReader, start: ImageEncoding | None
) -> dict[str, Any]:
    """Return the settings of the model that the images and the pre-trained model decide.

    Raises UsageError if a setting was requested that differs from the pre-trained model's.
    """
    defaults = type(model)()
    decided = {}
    if start is not None:
        decided = settings_of_pretrained("model", model, defaults, start.vit.config, SHAPE)
    return decided | size_settings("model", reader)


def size_settings(key: str, reader: ImageReader) -> dict[str, Any]:
    """Return the settings of the image size and the number of channels, in section `key`."""
    width = None if reader.width == reader.height else reader.width
    size = {"image_size": reader.height, "image_width": width, "channels": reader.channels}
    return {f"{key}.{name}": value for name, value in size.items()}


def settings_of_pretrained(
    key: str, requested: Any, defaults: Any, start: Any, names: Sequence[str]
) -> dict[str, Any]:
    """Return the settings `names` of the pre-trained model `start`, in section `key`.

    Raises UsageError if a setting was requested that is neither the default nor the pre-trained
    model's value.
    """
    for name in names:
        value, pre_trained = getattr(requested, name), getattr(start, name)
        if value not in (getattr(defaults, name), pre_trained) and name != "image_width":
            raise UsageError(
                f"{key}.{name}={value}, but the pre-trained model has {pre_trained}",
                hint=f"leave {key}.{name} unset",
            )
    return {f"{key}.{name}": getattr(start, name) for name in names}
