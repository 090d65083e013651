"""Image augmentation: random changes to which a model should be invariant.

Every function takes pixels from 0 to 1 and a random generator. All randomness comes from that
generator, so the same generator gives the same image, independent of the rest of the batch.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headway.base.settings import PIXELS, count, fraction, setting
from headway.base.shapes import Float, Tensor

RATIOS = (3 / 4, 4 / 3)  # range of the aspect ratio (width / height) of a crop
ERASED = (0.02, 1 / 3)  # range of the erased fraction of the image area
ATTEMPTS = 10
GREY = (0.299, 0.587, 0.114)
Random = np.random.Generator
VIEW = 1  # purpose of random numbers; `stream.SHUFFLE` is another


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Augmentation of training images. If all settings are off, images are not changed."""

    flip: float = setting(0.5, "probability of a horizontal flip", ge=0, le=1)
    padding: int = count(
        4, "maximum random shift of the image, in pixels, in each direction", PIXELS, least=0
    )
    crop: float = setting(
        1.0,
        "random resized crop: minimum fraction of the image area; 1 disables it",
        gt=0,
        le=1,
    )
    colour: float = fraction(
        0.0,
        "colour jitter: maximum relative change of brightness, contrast and saturation; "
        "0 disables it",
    )
    erase: float = setting(0.0, "probability of random erasing of a rectangle", ge=0, le=1)
    mixup: float = setting(
        0.0,
        "mixup: parameter a of the distribution Beta(a, a) of the mixing weight; 0 disables it",
        ge=0,
    )


def augmented(
    image: Float[Tensor, "C Y X"], config: AugmentationConfig, random: Random
) -> Float[Tensor, "C Y X"]:
    """Return the image after random resized crop, shift, flip, colour jitter and erasing.

    Mixup, which needs two images, is not included; see `mixup_weight`.
    """
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
    image: Float[Tensor, "C Y X"], max_shift: int, random: Random
) -> Float[Tensor, "C Y X"]:
    """Return a random crop of the same size from the image, padded with `max_shift` black pixels
    on each side."""
    y, x = image.shape[1:]
    top, left = random.integers(0, 2 * max_shift + 1, size=2).tolist()
    return F.pad(image, (max_shift, max_shift, max_shift, max_shift))[
        :, top : top + y, left : left + x
    ]


def random_resized_crop(
    image: Float[Tensor, "C Y X"],
    area_range: tuple[float, float],
    size: tuple[int, int],
    random: Random,
) -> Float[Tensor, "C Y2 X2"]:
    """Return a random crop, resized to `size` (height, width).

    area_range: range of the crop's fraction of the image area, sampled uniformly. The aspect ratio
    is between 3:4 and 4:3. Szegedy et al. 2015, section 6. DINO uses crops of two sizes (Caron et
    al. 2021, section 3.1).
    """
    y, x = image.shape[1:]
    height, width = min(y, x), min(y, x)
    for _ in range(ATTEMPTS):
        area = y * x * random.uniform(*area_range)
        ratio = math.exp(random.uniform(math.log(RATIOS[0]), math.log(RATIOS[1])))
        tall, wide = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < tall <= y and 0 < wide <= x:
            height, width = tall, wide
            break
    top = int(random.integers(0, y - height + 1))
    left = int(random.integers(0, x - width + 1))
    crop = image[None, :, top : top + height, left : left + width]
    resized = F.interpolate(crop, size, mode="bicubic", antialias=True, align_corners=False)
    return resized[0].clamp(0, 1)


def colour_jitter(
    image: Float[Tensor, "C Y X"], strength: float, random: Random
) -> Float[Tensor, "C Y X"]:
    """Multiply brightness, contrast and saturation, in random order, each by a factor from
    1 - `strength` to 1 + `strength`. A grey image has no saturation. Howard 2013."""
    for kind in random.permutation(3).tolist():
        factor = random.uniform(1 - strength, 1 + strength)
        if kind == 0:
            reference = torch.zeros((), dtype=image.dtype)
        elif kind == 1:
            reference = to_grey(image).mean()
        else:
            reference = to_grey(image)
        image = (reference + factor * (image - reference)).clamp(0, 1)
    return image


def random_erase(image: Float[Tensor, "C Y X"], random: Random) -> Float[Tensor, "C Y X"]:
    """Random erasing: replace a rectangle of 2 % to a third of the image area by noise. Zhong et
    al. 2020."""
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


def mixup_weight(alpha: float, random: Random) -> float:
    """Sample the mixup weight of the first of two images from Beta(alpha, alpha).

    The weight is at least 0.5: w and 1 - w are equally likely, so the larger one is used. Zhang et
    al. 2018, section 2.
    """
    weight = float(random.beta(alpha, alpha))
    return max(weight, 1 - weight)


def view_generator(seed: int, epoch: int, index: int) -> Random:
    """Return the random generator for the augmentation of image `index` in an epoch, independent of
    the other images in its batch."""
    return np.random.default_rng([seed, VIEW, epoch, index])


def to_grey(image: Float[Tensor, "C Y X"]) -> Float[Tensor, "1 Y X"]:
    """Return the luma (brightness) of each pixel. ITU-R BT.601."""
    if image.shape[0] == 1:
        return image
    return (image * image.new_tensor(GREY)[:, None, None]).sum(0, keepdim=True)
