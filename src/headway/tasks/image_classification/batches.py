"""Batches of labelled images, augmented and mixed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.data.augmentation import AugmentationConfig, augmented, mixup_weight, view_generator
from headway.data.image_corpus import ImageCorpus
from headway.data.image_reader import Normalise
from headway.data.stream import Batch, Indices


@dataclass(frozen=True)
class ImageBatch(Batch):
    """A batch of labelled images.

    images: normalised input of the model. targets: class of each image. mixed_targets: class of the
    image mixed in by mixup, and mixing_weights: mixing weight of the first image; without mixup,
    the target again and 1. indices: indices of the images in the corpus.
    """

    examples = "images"
    images: Float[Tensor, "B C Y X"]
    targets: Int[Tensor, " B"]
    mixed_targets: Int[Tensor, " B"]
    mixing_weights: Float[Tensor, " B"]
    indices: tuple[int, ...] = ()


@dataclass(frozen=True)
class AugmentedImages:
    """Makes batches of a corpus. The augmentation and mixup of an image depend only on (seed,
    epoch, its index)."""

    corpus: ImageCorpus
    normalise: Normalise
    config: AugmentationConfig
    seed: int

    def batch(self, indices: Indices, epoch: int) -> ImageBatch:
        """Return the images with these indices, augmented as in epoch `epoch`, as a batch."""
        chosen = [int(index) for index in indices]
        views = [self._seen(index, epoch) for index in chosen]
        images = torch.stack([image for image, _, _ in views])
        labels = self.corpus.labels
        return ImageBatch(
            self.normalise(images * 255),
            torch.tensor([int(labels[index]) for index in chosen]),
            torch.tensor([int(labels[other]) for _, other, _ in views]),
            torch.tensor([weight for _, _, weight in views]),
            tuple(chosen),
        )

    def _seen(self, index: int, epoch: int) -> tuple[Tensor, int, float]:
        """Return (augmented image, index of the image mixed in, mixing weight of the first)."""
        random = view_generator(self.seed, epoch, index)
        image = augmented(self.corpus.image(index), self.config, random)
        if not self.config.mixup:
            return image, index, 1.0
        weight = mixup_weight(self.config.mixup, random)
        other_index = int(random.integers(len(self.corpus)))
        other_image = augmented(self.corpus.image(other_index), self.config, random)
        return torch.lerp(other_image, image, weight), other_index, weight
