"""Several looks at one picture: large parts of it and small ones (multi-crop)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from headway.data.augmentation import (
    Random,
    colour_jitter,
    random_resized_crop,
    to_grey,
)
from headway.data.image_batches import Normalise, seen_by, shuffled
from headway.data.image_corpus import ImageCorpus
from headway.settings import COPIES, setting
from headway.shapes import Float, Tensor

BLUR = (0.1, 2.0)  # deviation of the Gaussian, in pixels of 224


@dataclass(frozen=True, kw_only=True)
class ViewConfig:
    """Which looks there are. Caron et al. 2021, section 3.2 and appendix E."""

    whole: int = setting(2, "large parts: the teacher sees these, the student all", ge=1, le=COPIES)
    local: int = setting(6, "small parts", ge=0, le=COPIES)
    whole_share: float = setting(0.4, "least share of the picture in a large part", gt=0, le=1)
    local_share: float = setting(0.4, "greatest share of the picture in a small part", gt=0, le=1)
    least: float = setting(0.05, "least share of the picture in a small part", gt=0, le=1)
    local_size: float = setting(
        0.5, "sides of a small part, of the model's image; rounded to whole patches", gt=0, le=1
    )
    flip: float = setting(0.5, "how often left and right change places", ge=0, le=1)
    colour: float = setting(
        0.4, "by how much brightness, contrast and saturation change at most", ge=0, lt=1
    )
    jitter: float = setting(0.8, "how often they change", ge=0, le=1)
    grey: float = setting(0.2, "how often colour goes", ge=0, le=1)
    blur: float = setting(0.5, "how often a part is blurred", ge=0, le=1)
    solarize: float = setting(
        0.2, "how often bright pixels of the second one turn dark", ge=0, le=1
    )

    def __post_init__(self) -> None:
        if self.whole + self.local < 2:
            raise ValueError(f"whole={self.whole} and local={self.local}: two views are needed")
        if self.least > self.local_share:
            raise ValueError(f"least={self.least} must be at most local_share={self.local_share}")


@dataclass(frozen=True)
class ViewBatch:
    """views: of the same pictures, the `whole` large ones first. indices: where they stand."""

    examples: ClassVar[str] = "images"  # what `indices` count, for messages
    views: tuple[Float[Tensor, "B C _ _"], ...]
    whole: int
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> ViewBatch:
        """The same on another device."""
        return ViewBatch(tuple(v.to(device) for v in self.views), self.whole, self.indices)


class ViewBatches:
    """An epoch has every picture once, in an order that follows from (seed, epoch); its views
    follow from (seed, epoch, its number)."""

    def __init__(
        self,
        corpus: ImageCorpus,
        normalise: Normalise,
        config: ViewConfig,
        patch: tuple[int, int],
        rows: int,
        seed: int,
    ) -> None:
        """patch: height and width of a patch; a small part has whole ones."""
        self.corpus, self.normalise, self.config = corpus, normalise, config
        self.rows, self.seed = rows, seed
        y, x = corpus.sizes[1:]
        sides = zip((y, x), patch, strict=True)
        self.large = y, x
        self.small = tuple(max(1, round(side * config.local_size / p)) * p for side, p in sides)

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self.corpus) // self.rows)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, ViewBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return shuffled(len(self.corpus), self.rows, self.seed, self.batch, epoch, position)

    def batch(self, indices: Sequence[int], epoch: int) -> ViewBatch:
        """These pictures as they are seen in that epoch."""
        seen = [self._views(index, epoch) for index in indices]
        views = [torch.stack(views) for views in zip(*seen, strict=True)]
        normal = tuple(self.normalise(view * 255) for view in views)
        return ViewBatch(normal, self.config.whole, tuple(indices))

    def _views(self, index: int, epoch: int) -> list[Tensor]:
        random, image = seen_by(self.seed, epoch, index), self.corpus.image(index)
        config = self.config
        large, small = (config.whole_share, 1.0), (config.least, config.local_share)
        views = []
        for number in range(config.whole + config.local):
            is_whole = number < config.whole
            size = self.large if is_whole else (self.small[0], self.small[1])
            view = random_resized_crop(image, large if is_whole else small, size, random)
            views.append(self._changed(view, number, random))
        return views

    def _changed(self, view: Tensor, number: int, random: Random) -> Tensor:
        """Flipped, coloured, grey, blurred, solarised, each by chance. The first view is always
        blurred where any is, as theirs."""
        config = self.config
        if random.random() < config.flip:
            view = view.flip(2)
        if config.colour and random.random() < config.jitter:
            view = colour_jitter(view, config.colour, random)
        if random.random() < config.grey:
            view = to_grey(view).expand_as(view)
        often = min(1.0, 2 * config.blur) if number == 0 else config.blur
        if random.random() < often:
            view = blurred(view, random.uniform(*BLUR) * max(self.large) / 224)
        if number == 1 and random.random() < config.solarize:
            view = torch.where(view >= 0.5, 1 - view, view)
        return view


def blurred(image: Float[Tensor, "C Y X"], deviation: float) -> Float[Tensor, "C Y X"]:
    """Each pixel the mean of those around by a Gaussian of that deviation, in pixels."""
    reach = max(1, math.ceil(3 * deviation))
    if reach >= min(image.shape[1:]):
        reach = min(image.shape[1:]) - 1
    places = torch.arange(-reach, reach + 1, dtype=image.dtype)
    weights = torch.exp(-0.5 * (places / deviation) ** 2)
    weights = weights / weights.sum()
    padded = F.pad(image[:, None], (reach, reach, reach, reach), mode="reflect")
    across = F.conv2d(padded, weights[None, None, None])
    return F.conv2d(across, weights[None, None, :, None])[:, 0]
