"""The image preprocessing of a model: resizing, cropping and normalisation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from headway.base.errors import DataError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.shapes import Float, Shaped, Tensor
from headway.data.images import PIXELS_LIMIT, Conversion, Pixels, resized, with_channels

FILE = "images.json"
FORMAT = 2
LARGEST = 1 << 14  # pixels along a side
IMAGES_AT_ONCE = 16
"""Images in a forward pass without gradients. What a layer writes for 32 of 224 x 224 pixels is
above 32 MB, which glibc returns to the kernel at every release (docs/speed.md)."""
Resampling = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
Normalise = Callable[[Tensor], Tensor]
"""Maps pixels from 0 to 255 to the normalised input of a model, as `ImageReader.normalised`."""


@dataclass(frozen=True, kw_only=True)
class ImageReader:
    """Converts images to model input: resize to height x width, then (pixels / 255 - mean) /
    deviation.

    shorter: resize the shorter side to this number of pixels, then take the centre crop. squashed:
    resize the whole image to this height and width, then take the centre crop. If both are None,
    the whole image is squashed to height x width. padded: do not resize; take the centre crop and
    pad it with black (silence for a sound). mean, deviation: mean and standard deviation of each
    channel. conversion: how files become grey or colour (`images.Conversion`).
    """

    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    shorter: int | None = None
    resampling: Resampling = "bicubic"
    padded: bool = False
    squashed: tuple[int, int] | None = None
    conversion: Conversion = "blend"

    def __post_init__(self) -> None:
        shorter, longer_side = self.shorter, max(self.height, self.width)
        if shorter is not None and shorter < longer_side:
            raise ValueError(
                f"{shorter=} must be at least {longer_side}, the longer side of the centre crop"
            )
        if self.squashed is not None and (
            shorter is not None or self.squashed[0] < self.height or self.squashed[1] < self.width
        ):
            raise ValueError(
                f"squashed={self.squashed} must be at least height={self.height} and "
                f"width={self.width} of the centre crop, without `shorter`"
            )

    @property
    def channels(self) -> int:
        """The number of channels: 1 (grey) or 3 (colour)."""
        return len(self.mean)

    def sized(self, pixels: Pixels) -> Pixels:
        """Return an image of any size as height x width x channels.

        Raises DataError for an image so long and narrow that it would have more than 25 million
        pixels before cropping.
        """
        y, x = pixels.shape[:2]
        if self.padded:
            return with_channels(_padded(pixels, self.height, self.width), self.channels)
        if self.shorter is None:
            down, across = self.squashed or (self.height, self.width)
        else:
            down, across = (int(self.shorter * side / min(y, x)) for side in (y, x))
        if down * across > PIXELS_LIMIT:
            raise DataError(
                f"an image of {x:,} x {y:,} pixels (width x height) is too long and narrow: when "
                f"resized it would have more than {PIXELS_LIMIT:,} pixels",
                hint="crop the image",
            )
        top, left = (down - self.height) // 2, (across - self.width) // 2
        middle = resized(pixels, down, across, self.resampling)
        middle = middle[top : top + self.height, left : left + self.width]
        return with_channels(middle, self.channels)

    def normalised(self, pixels: Shaped[Tensor, "*B C Y X"]) -> Float[Tensor, "*B C Y X"]:
        """Return the normalised model input from pixels of 0 to 255 of any dtype."""
        mean = torch.tensor(self.mean, device=pixels.device)[:, None, None]
        deviation = torch.tensor(self.deviation, device=pixels.device)[:, None, None]
        normalised: Tensor = (pixels.float() / 255 - mean) / deviation
        return normalised

    def batch(self, images: Sequence[Pixels]) -> Float[Tensor, "B C Y X"]:
        """Return images of any sizes as one batch of normalised model input."""
        stacked = np.stack([self.sized(pixels).transpose(2, 0, 1) for pixels in images])
        return self.normalised(torch.from_numpy(stacked))

    def of_size(self, height: int, width: int) -> ImageReader:
        """Return a reader for another input size, with the same cropped fraction."""
        shorter, squashed = self.shorter, self.squashed
        if shorter is not None:
            shorter = max(round(shorter * height / self.height), height, width)
        if squashed is not None:
            down, across = squashed
            squashed = round(down * height / self.height), round(across * width / self.width)
        return replace(self, height=height, width=width, shorter=shorter, squashed=squashed)

    @property
    def fingerprint(self) -> str:
        """sha256 of all settings, on which the model input depends."""
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        return json_bytes({"format": FORMAT, **asdict(self)})

    def save(self, folder: Path) -> None:
        """Write `images.json`."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ImageReader:
        """Read a file that `save` wrote. Raises DataError for another file."""
        path = folder / FILE
        description = read_json(path)
        if not isinstance(description, dict) or not _is_description(description):
            raise DataError(
                f"the file does not describe image preprocessing of format {FORMAT}",
                str(path),
                "give the folder of a model that headway saved",
            )
        values = {name: description[name] for name in cls.__dataclass_fields__}
        values |= {name: tuple(map(float, description[name])) for name in ("mean", "deviation")}
        values["squashed"] = values["squashed"] and tuple(values["squashed"])
        try:
            return cls(**values)
        except ValueError as error:
            raise DataError(str(error), str(path)) from error


def _padded(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return the centre crop of an image, padded with black where the image is smaller."""
    y, x = pixels.shape[:2]
    top, left = max(0, y - height) // 2, max(0, x - width) // 2
    middle = pixels[top : top + height, left : left + width]
    missing = height - middle.shape[0], width - middle.shape[1]
    padding = [(side // 2, side - side // 2) for side in missing]
    return np.pad(middle, [*padding, (0, 0)])


def _is_description(description: dict[str, Any]) -> bool:
    sides = [description.get("height"), description.get("width"), description.get("shorter") or 1]
    mean, deviation = description.get("mean"), description.get("deviation")
    squashed = description.get("squashed") or [1, 1]
    return (
        description.keys() == {"format", *ImageReader.__dataclass_fields__}
        and description["format"] == FORMAT
        and isinstance(squashed, list)
        and len(squashed) == 2
        and all(type(side) is int and 0 < side <= LARGEST for side in sides + squashed)
        and _are_numbers(mean)
        and _are_numbers(deviation)
        and len(mean) == len(deviation)  # type: ignore[arg-type]
        and all(value > 0 for value in deviation)  # type: ignore[union-attr]
        and description["resampling"] in get_args(Resampling)
        and type(description["padded"]) is bool
        and description["conversion"] in get_args(Conversion)
    )


def _are_numbers(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) in (1, 3)
        and all(type(value) in {int, float} for value in values)
    )
