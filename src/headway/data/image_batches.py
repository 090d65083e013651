"""Streams labelled images as augmented batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch

from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.data.augmentation import Augmentation, AugmentationConfig, mixup_weight
from headway.data.epochs import endless
from headway.data.image_corpus import ImageCorpus

IMAGES_AT_ONCE = 16
"""Images in a forward pass without gradients. What a layer writes for 32 of 224 x 224 pixels is
above 32 MB, which glibc returns to the kernel at every release (docs/log/speed.md)."""
_ORDER, _VIEW = range(2)  # purposes of random numbers
B = TypeVar("B")
Normalise = Callable[[Tensor], Tensor]
"""Maps pixels from 0 to 255 to the normalised input of a model."""


@dataclass(frozen=True)
class ImageBatch:
    """A batch of labelled images.

    images: normalised input of the model. targets: class of each image. mixed_targets: class of the
    image mixed in by mixup, and mixing_weights: mixing weight of the first image; without mixup,
    the target again and 1. indices: indices of the images in the corpus.
    """

    examples: ClassVar[str] = "images"  # what `indices` count, for messages
    images: Float[Tensor, "B C Y X"]
    targets: Int[Tensor, " B"]
    mixed_targets: Int[Tensor, " B"]
    mixing_weights: Float[Tensor, " B"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> ImageBatch:
        """Return the batch on another device."""
        return ImageBatch(
            upload(self.images, device),
            upload(self.targets, device),
            upload(self.mixed_targets, device),
            upload(self.mixing_weights, device),
            self.indices,
        )


def shuffled(
    count: int,
    batch_size: int,
    seed: int,
    make: Callable[[list[int], int], B],
    epoch: int,
    position: int,
) -> Iterator[tuple[int, int, B]]:
    """Yield (next epoch, next position, batch) without end, starting at batch `position` of
    `epoch`.

    Each epoch has each of `count` examples once, in an order that depends only on (seed, epoch).
    batch_size: number of images per batch. make: makes a batch from indices of examples and the
    number of the epoch.
    """

    def batches(number: int) -> list[list[int]]:
        order = np.random.default_rng([seed, _ORDER, number]).permutation(count).tolist()
        return [order[start : start + batch_size] for start in range(0, count, batch_size)]

    return endless(batches, make, epoch, position)


def view_generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Return the random generator for the augmentation of image `index` in an epoch, independent of
    the other images in its batch."""
    return np.random.default_rng([seed, _VIEW, epoch, index])


class ImageBatches:
    """An endless stream of batches that can start at any batch of any epoch.

    Each epoch has each image once, in an order that depends only on (seed, epoch). The augmentation
    and mixup of an image depend only on (seed, epoch, its index). batch_size: number of images per
    batch.
    """

    def __init__(
        self,
        corpus: ImageCorpus,
        normalise: Normalise,
        augmentation: AugmentationConfig,
        batch_size: int,
        seed: int,
    ) -> None:
        self.corpus, self.normalise = corpus, normalise
        self.config, self.augmentation = augmentation, Augmentation(augmentation)
        self.batch_size, self.seed = batch_size, seed

    @property
    def examples_per_epoch(self) -> int:
        return len(self.corpus)

    @property
    def batches_per_epoch(self) -> int:
        return -(-self.examples_per_epoch // self.batch_size)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, ImageBatch]]:
        """Yield (next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return shuffled(len(self.corpus), self.batch_size, self.seed, self.batch, epoch, position)

    def batch(self, indices: Sequence[int], epoch: int) -> ImageBatch:
        """Return the images with these indices, augmented as in epoch `epoch`, as a batch."""
        views = [self._seen(index, epoch) for index in indices]
        images = torch.stack([image for image, _, _ in views])
        labels = self.corpus.labels
        return ImageBatch(
            self.normalise(images * 255),
            torch.tensor([int(labels[index]) for index in indices]),
            torch.tensor([int(labels[other]) for _, other, _ in views]),
            torch.tensor([weight for _, _, weight in views]),
            tuple(indices),
        )

    def _seen(self, index: int, epoch: int) -> tuple[Tensor, int, float]:
        """Return (augmented image, index of the image mixed in, mixing weight of the first)."""
        random = view_generator(self.seed, epoch, index)
        image = self.augmentation(self.corpus.image(index), random)
        if not self.config.mixup:
            return image, index, 1.0
        weight = mixup_weight(self.config.mixup, random)
        other_index = int(random.integers(len(self.corpus)))
        other_image = self.augmentation(self.corpus.image(other_index), random)
        return torch.lerp(other_image, image, weight), other_index, weight
