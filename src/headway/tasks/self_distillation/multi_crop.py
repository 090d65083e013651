"""Multi-crop augmentation: several global (large) and local (small) crops of one image."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.base.settings import COPIES, count, setting, with_default
from headway.base.shapes import Float, Tensor
from headway.data.augmentation import (
    AugmentationConfig,
    Random,
    colour_jitter,
    random_resized_crop,
    to_grey,
    view_generator,
)
from headway.data.image_corpus import ImageCorpus
from headway.data.image_reader import Normalise
from headway.data.stream import Batch, Indices

BLUR = (0.1, 2.0)  # range of the standard deviation of the blur, in pixels of a 224-pixel image


@dataclass(frozen=True, kw_only=True)
class ViewConfig:
    """Multi-crop settings of DINO. Caron et al. 2021, section 3.2 and appendix E."""

    global_crops: int = count(
        2,
        "number of global crops; the teacher encodes these, the student all crops",
        COPIES,
    )
    local_crops: int = count(6, "number of local crops", COPIES, least=0)
    global_min_area: float = setting(
        0.4, "minimum fraction of the image area in a global crop", gt=0, le=1
    )
    local_max_area: float = setting(
        0.4, "maximum fraction of the image area in a local crop", gt=0, le=1
    )
    local_min_area: float = setting(
        0.05, "minimum fraction of the image area in a local crop", gt=0, le=1
    )
    local_size: float = setting(
        0.5,
        "height and width of a local crop, as fractions of the model's image size; rounded to "
        "whole patches",
        gt=0,
        le=1,
    )
    flip: float = with_default(AugmentationConfig, "flip", 0.5)
    colour: float = with_default(AugmentationConfig, "colour", 0.4)
    jitter: float = setting(0.8, "probability of colour jitter", ge=0, le=1)
    grey: float = setting(0.2, "probability of conversion to greyscale", ge=0, le=1)
    blur: float = setting(0.5, "probability of a Gaussian blur", ge=0, le=1)
    solarize: float = setting(0.2, "probability of solarisation of the second crop", ge=0, le=1)

    def __post_init__(self) -> None:
        if self.global_crops + self.local_crops < 2:
            raise ValueError(
                f"global_crops={self.global_crops} and local_crops={self.local_crops} must add up "
                "to at least 2 views"
            )
        if self.local_min_area > self.local_max_area:
            raise ValueError(
                f"local_min_area={self.local_min_area} must be at most "
                f"local_max_area={self.local_max_area}"
            )


@dataclass(frozen=True)
class ViewBatch(Batch):
    """Views (crops) of a batch of images.

    views: one batch of images per view, the `num_global` global crops first. indices: indices of
    the images in the corpus.
    """

    examples = "images"
    views: tuple[Float[Tensor, "B C _ _"], ...]
    num_global: int
    indices: tuple[int, ...] = ()


class Views:
    """Makes batches of views of the images of a corpus. The views of an image depend only on (seed,
    epoch, its index).

    patch: height and width of a patch; the size of a local crop is a multiple of it.
    """

    def __init__(
        self,
        corpus: ImageCorpus,
        normalise: Normalise,
        config: ViewConfig,
        patch: tuple[int, int],
        seed: int,
    ) -> None:
        self.corpus, self.normalise, self.config, self.seed = corpus, normalise, config, seed
        y, x = corpus.sizes[1:]
        sides = zip((y, x), patch, strict=True)
        self.large = y, x
        self.small = tuple(max(1, round(side * config.local_size / p)) * p for side, p in sides)

    def batch(self, indices: Indices, epoch: int) -> ViewBatch:
        """Return the views of the images with these indices in epoch `epoch` as a batch."""
        chosen = [int(index) for index in indices]
        views_by_image = [self._views(index, epoch) for index in chosen]
        views = [torch.stack(views) for views in zip(*views_by_image, strict=True)]
        normal = tuple(self.normalise(view * 255) for view in views)
        return ViewBatch(normal, self.config.global_crops, tuple(chosen))

    def _views(self, index: int, epoch: int) -> list[Tensor]:
        random, image = view_generator(self.seed, epoch, index), self.corpus.image(index)
        config = self.config
        large, small = (config.global_min_area, 1.0), (config.local_min_area, config.local_max_area)
        views = []
        for number in range(config.global_crops + config.local_crops):
            is_global = number < config.global_crops
            size = self.large if is_global else (self.small[0], self.small[1])
            view = random_resized_crop(image, large if is_global else small, size, random)
            views.append(self._changed(view, number, random))
        return views

    def _changed(self, view: Tensor, number: int, random: Random) -> Tensor:
        """Return a view after random flip, colour jitter, greyscale, blur and solarisation.

        As in DINO, the first view is blurred with twice the probability of the others.
        """
        config = self.config
        if random.random() < config.flip:
            view = view.flip(2)
        if config.colour and random.random() < config.jitter:
            view = colour_jitter(view, config.colour, random)
        if random.random() < config.grey:
            view = to_grey(view).expand_as(view)
        blur_probability = min(1.0, 2 * config.blur) if number == 0 else config.blur
        if random.random() < blur_probability:
            view = blurred(view, random.uniform(*BLUR) * max(self.large) / 224)
        if number == 1 and random.random() < config.solarize:
            view = torch.where(view >= 0.5, 1 - view, view)
        return view


def blurred(image: Float[Tensor, "C Y X"], deviation: float) -> Float[Tensor, "C Y X"]:
    """Return the image after a Gaussian blur. deviation: standard deviation, in pixels."""
    reach = max(1, math.ceil(3 * deviation))
    if reach >= min(image.shape[1:]):
        reach = min(image.shape[1:]) - 1
    offsets = torch.arange(-reach, reach + 1, dtype=image.dtype)
    weights = torch.exp(-0.5 * (offsets / deviation) ** 2)
    weights = weights / weights.sum()
    padded = F.pad(image[:, None], (reach, reach, reach, reach), mode="reflect")
    blurred_horizontally = F.conv2d(padded, weights[None, None, None])
    return F.conv2d(blurred_horizontally, weights[None, None, :, None])[:, 0]
