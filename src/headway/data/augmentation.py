"""The same picture, seen a little otherwise each time: what a model should not mind.

Every function takes pixels from 0 to 1 and a random generator, and draws what it needs from that
alone: the same generator gives the same picture, whatever stands beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headway.settings import PIXELS, setting
from headway.shapes import Float, Tensor

RATIOS = (3 / 4, 4 / 3)  # of width to height, of what is cut out
ERASED = (0.02, 1 / 3)  # shares of the picture
ATTEMPTS = 10
GREY = (0.299, 0.587, 0.114)
Random = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Which changes a picture undergoes while training. All off: it is seen as it is."""

    flip: float = setting(0.5, "how often left and right change places", ge=0, le=1)
    padding: int = setting(
        4, "pixels by which the picture moves at most, in each direction", ge=0, le=PIXELS
    )
    crop: float = setting(
        1.0, "a part of at least this share of the picture is cut out and enlarged", gt=0, le=1
    )
    colour: float = setting(
        0.0, "by how much brightness, contrast and saturation change at most", ge=0, lt=1
    )
    erase: float = setting(0.0, "how often a rectangle is blotted out", ge=0, le=1)
    mixup: float = setting(
        0.0, "two pictures and their classes are mixed, by shares from Beta(a, a); 0: never", ge=0
    )


class Augmentation:
    """Changes one picture by a configuration; mixing, which needs two, is `mixed_share`."""

    def __init__(self, config: AugmentationConfig) -> None:
        self.config = config

    def __call__(self, image: Float[Tensor, "C Y X"], random: Random) -> Float[Tensor, "C Y X"]:
        """In order: cut out, moved, flipped, coloured, erased."""
        config = self.config
        if config.crop < 1:
            y, x = image.shape[1:]
            image = random_resized_crop(image, (config.crop, 1.0), (y, x), random)
        if config.padding:
            image = random_shift(image, config.padding, random)
        if config.flip and random.random() < config.flip:
            image = image.flip(2)
        if config.colour:
            image = colour_jitter(image, config.colour, random)
        if config.erase and random.random() < config.erase:
            image = random_erase(image, random)
        return image


def random_shift(
    image: Float[Tensor, "C Y X"], most: int, random: Random
) -> Float[Tensor, "C Y X"]:
    """A crop of the same size out of the picture with `most` black pixels on each side."""
    y, x = image.shape[1:]
    top, left = random.integers(0, 2 * most + 1, size=2).tolist()
    return F.pad(image, (most, most, most, most))[:, top : top + y, left : left + x]


def random_resized_crop(
    image: Float[Tensor, "C Y X"],
    shares: tuple[float, float],
    size: tuple[int, int],
    random: Random,
) -> Float[Tensor, "C Y2 X2"]:
    """A part, made `size`: its area is a share of the picture's, uniform between `shares`, and its
    sides are as 3 to 4 to as 4 to 3. Szegedy et al. 2015, section 6; of several sizes, the crops of
    DINO (Caron et al. 2021, section 3.1)."""
    y, x = image.shape[1:]
    height, width = min(y, x), min(y, x)
    for _ in range(ATTEMPTS):
        area = y * x * random.uniform(*shares)
        ratio = math.exp(random.uniform(math.log(RATIOS[0]), math.log(RATIOS[1])))
        tall, wide = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < tall <= y and 0 < wide <= x:
            height, width = tall, wide
            break
    top = int(random.integers(0, y - height + 1))
    left = int(random.integers(0, x - width + 1))
    part = image[None, :, top : top + height, left : left + width]
    found = F.interpolate(part, size, mode="bicubic", antialias=True, align_corners=False)
    return found[0].clamp(0, 1)


def colour_jitter(
    image: Float[Tensor, "C Y X"], most: float, random: Random
) -> Float[Tensor, "C Y X"]:
    """Brightness, contrast and saturation, in any order, each times a number from 1 - `most` to
    1 + `most`. A grey picture has no saturation. Howard 2013."""
    for kind in random.permutation(3).tolist():
        factor = random.uniform(1 - most, 1 + most)
        if kind == 0:
            other = torch.zeros((), dtype=image.dtype)
        elif kind == 1:
            other = to_grey(image).mean()
        else:
            other = to_grey(image)
        image = (other + factor * (image - other)).clamp(0, 1)
    return image


def random_erase(image: Float[Tensor, "C Y X"], random: Random) -> Float[Tensor, "C Y X"]:
    """Noise where a rectangle was, of 2 % to a third of the picture. Zhong et al. 2020."""
    channels, y, x = image.shape
    for _ in range(ATTEMPTS):
        area = y * x * random.uniform(*ERASED)
        ratio = math.exp(random.uniform(math.log(0.3), math.log(1 / 0.3)))
        height, width = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if not (0 < height < y and 0 < width < x):
            continue
        top = int(random.integers(0, y - height + 1))
        left = int(random.integers(0, x - width + 1))
        noise: Any = random.random((channels, height, width), dtype=np.float32)
        image = image.clone()
        image[:, top : top + height, left : left + width] = torch.from_numpy(noise)
        break
    return image


def mixed_share(alpha: float, random: Random) -> float:
    """How much of the first of two mixed pictures remains: at least a half, by Beta(alpha, alpha).
    The two may change places, so nothing is lost. Zhang et al. 2018, section 2."""
    share = float(random.beta(alpha, alpha))
    return max(share, 1 - share)


def to_grey(image: Float[Tensor, "C Y X"]) -> Float[Tensor, "1 Y X"]:
    """How bright each pixel is. ITU-R BT.601."""
    if image.shape[0] == 1:
        return image
    return (image * image.new_tensor(GREY)[:, None, None]).sum(0, keepdim=True)
