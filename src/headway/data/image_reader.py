"""How a model reads pictures: their size, and what its numbers mean."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from headway.data.images import PIXELS_LIMIT, Pixels, resized, with_channels
from headway.errors import DataError
from headway.files import json_bytes, read_json, write_file
from headway.shapes import Float, Shaped, Tensor

FILE = "images.json"
FORMAT = 1
LARGEST = 1 << 14  # pixels along a side
Resampling = Literal["nearest", "bilinear", "bicubic", "lanczos"]


@dataclass(frozen=True, kw_only=True)
class ImageReader:
    """Pixels -> (pixels / 255 - mean) / deviation, height x width of them.

    shorter: the shorter side becomes so many pixels, and the middle of the picture is cut out;
    none: the whole picture is pressed into height x width. padded: nothing is made larger or
    smaller; the middle is cut out, and what is missing around it is black (of a sound: silence).
    mean, deviation: of each channel.
    """

    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    shorter: int | None = None
    resampling: Resampling = "bicubic"
    padded: bool = False

    def __post_init__(self) -> None:
        shorter, longer_side = self.shorter, max(self.height, self.width)
        if shorter is not None and shorter < longer_side:
            raise ValueError(f"{shorter=} is less than the {longer_side} that are cut out")

    @property
    def channels(self) -> int:
        """1 grey, 3 colour."""
        return len(self.mean)

    def sized(self, pixels: Pixels) -> Pixels:
        """Any picture as height x width x channels. DataError for one so long and thin that it
        would have more than 25 million pixels on the way."""
        y, x = pixels.shape[:2]
        if self.padded:
            return with_channels(_padded(pixels, self.height, self.width), self.channels)
        if self.shorter is None:
            whole = resized(pixels, self.height, self.width, self.resampling)
            return with_channels(whole, self.channels)
        down, across = (int(self.shorter * side / min(y, x)) for side in (y, x))
        if down * across > PIXELS_LIMIT:
            raise DataError(f"a picture of {x:,} x {y:,} pixels is too long and thin to be read")
        top, left = (down - self.height) // 2, (across - self.width) // 2
        middle = resized(pixels, down, across, self.resampling)
        middle = middle[top : top + self.height, left : left + self.width]
        return with_channels(middle, self.channels)

    def normalised(self, pixels: Shaped[Tensor, "*B C Y X"]) -> Float[Tensor, "*B C Y X"]:
        """What the model is given, of numbers from 0 to 255, bytes or not."""
        mean = torch.tensor(self.mean, device=pixels.device)[:, None, None]
        deviation = torch.tensor(self.deviation, device=pixels.device)[:, None, None]
        found: Tensor = (pixels.float() / 255 - mean) / deviation
        return found

    def batch(self, pictures: Sequence[Pixels]) -> Float[Tensor, "B C Y X"]:
        """Pictures of any sizes, as the model is given them."""
        together = np.stack([self.sized(pixels).transpose(2, 0, 1) for pixels in pictures])
        return self.normalised(torch.from_numpy(together))

    def of_size(self, height: int, width: int) -> ImageReader:
        """The same for another size of pictures; what is cut away stays the same share."""
        shorter = self.shorter
        if shorter is not None:
            shorter = max(round(shorter * height / self.height), height, width)
        return replace(self, height=height, width=width, shorter=shorter)

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the numbers depend on."""
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        return json_bytes({"format": FORMAT, **asdict(self)})

    def save(self, folder: Path) -> None:
        """Write images.json."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ImageReader:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / FILE
        facts = read_json(path)
        if not isinstance(facts, dict) or not _are_facts(facts):
            raise DataError(f"does not say how pictures are read (format {FORMAT})", str(path))
        values = {name: facts[name] for name in cls.__dataclass_fields__}
        values |= {name: tuple(map(float, facts[name])) for name in ("mean", "deviation")}
        try:
            return cls(**values)
        except ValueError as error:
            raise DataError(str(error), str(path)) from error


def _padded(pixels: Pixels, height: int, width: int) -> Pixels:
    """The middle of a picture, or all of it in the middle of black."""
    y, x = pixels.shape[:2]
    top, left = max(0, y - height) // 2, max(0, x - width) // 2
    middle = pixels[top : top + height, left : left + width]
    missing = height - middle.shape[0], width - middle.shape[1]
    around = [(each // 2, each - each // 2) for each in missing]
    return np.pad(middle, [*around, (0, 0)])


def _are_facts(facts: dict[str, Any]) -> bool:
    sides = (facts.get("height"), facts.get("width"), facts.get("shorter") or 1)
    mean, deviation = facts.get("mean"), facts.get("deviation")
    return (
        facts.keys() == {"format", *ImageReader.__dataclass_fields__}
        and facts["format"] == FORMAT
        and all(type(side) is int and 0 < side <= LARGEST for side in sides)
        and _are_numbers(mean)
        and _are_numbers(deviation)
        and len(mean) == len(deviation)  # type: ignore[arg-type]
        and all(value > 0 for value in deviation)  # type: ignore[union-attr]
        and facts["resampling"] in get_args(Resampling)
        and type(facts["padded"]) is bool
    )


def _are_numbers(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) in (1, 3)
        and all(type(value) in {int, float} for value in values)
    )
