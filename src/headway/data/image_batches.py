"""Pictures of known classes as an endless stream of batches that can be entered anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch

from headway.data.augmentation import Augmentation, AugmentationConfig, mixed_share
from headway.data.epochs import endless
from headway.data.image_corpus import ImageCorpus
from headway.shapes import Float, Int, Tensor

_ORDER, _VIEW = range(2)  # what random numbers are for
B = TypeVar("B")
Normalise = Callable[[Tensor], Tensor]
"""Numbers from 0 to 255 -> what a model is given."""


@dataclass(frozen=True)
class ImageBatch:
    """images: as the model is given them. targets: what each shows. others, shares: of a mixed one,
    what else it shows, and how much of it is its own target; the target again and 1 of all others.
    indices: where in the corpus they stand."""

    examples: ClassVar[str] = "images"  # what `indices` count, for messages
    images: Float[Tensor, "B C Y X"]
    targets: Int[Tensor, " B"]
    others: Int[Tensor, " B"]
    shares: Float[Tensor, " B"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> ImageBatch:
        """The same on another device."""
        return ImageBatch(
            self.images.to(device),
            self.targets.to(device),
            self.others.to(device),
            self.shares.to(device),
            self.indices,
        )


def shuffled(
    count: int,
    rows: int,
    seed: int,
    make: Callable[[list[int], int], B],
    epoch: int,
    position: int,
) -> Iterator[tuple[int, int, B]]:
    """(next epoch, next position, batch) without end, starting at batch `position` of `epoch`; each
    epoch has all of `count` things once, in an order that follows from (seed, epoch).

    make: a batch of these things in that epoch.
    """

    def batches(number: int) -> list[list[int]]:
        order = np.random.default_rng([seed, _ORDER, number]).permutation(count).tolist()
        return [order[start : start + rows] for start in range(0, count, rows)]

    return endless(batches, make, epoch, position)


def seen_by(seed: int, epoch: int, index: int) -> np.random.Generator:
    """What decides how a picture is seen in an epoch, whatever stands beside it."""
    return np.random.default_rng([seed, _VIEW, epoch, index])


class ImageBatches:
    """An epoch has every picture once, in an order that follows from (seed, epoch); how a picture
    is changed, and with which it is mixed, follows from (seed, epoch, its number)."""

    def __init__(
        self,
        corpus: ImageCorpus,
        normalise: Normalise,
        augmentation: AugmentationConfig,
        rows: int,
        seed: int,
    ) -> None:
        self.corpus, self.normalise = corpus, normalise
        self.config, self.augmentation = augmentation, Augmentation(augmentation)
        self.rows, self.seed = rows, seed

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self.corpus) // self.rows)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, ImageBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return shuffled(len(self.corpus), self.rows, self.seed, self.batch, epoch, position)

    def batch(self, indices: Sequence[int], epoch: int) -> ImageBatch:
        """These pictures as they are seen in that epoch."""
        seen = [self._seen(index, epoch) for index in indices]
        images = torch.stack([image for image, _, _ in seen])
        labels = self.corpus.labels
        return ImageBatch(
            self.normalise(images * 255),
            torch.tensor([int(labels[index]) for index in indices]),
            torch.tensor([int(labels[other]) for _, other, _ in seen]),
            torch.tensor([share for _, _, share in seen]),
            tuple(indices),
        )

    def _seen(self, index: int, epoch: int) -> tuple[Tensor, int, float]:
        """(picture, number of the one mixed in, share of itself)."""
        random = seen_by(self.seed, epoch, index)
        image = self.augmentation(self.corpus.image(index), random)
        if not self.config.mixup:
            return image, index, 1.0
        share = mixed_share(self.config.mixup, random)
        other = int(random.integers(len(self.corpus)))
        second = self.augmentation(self.corpus.image(other), random)
        return torch.lerp(second, image, share), other, share
