"""Images with captions as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.base.shapes import Bool, Float, Int, Tensor
from headway.base.transfers import upload
from headway.data.augmentation import Augmentation, AugmentationConfig
from headway.data.image_batches import Normalise, shuffled, view_generator
from headway.data.image_corpus import ImageCorpus
from headway.data.padding import padded


@dataclass(frozen=True)
class TokenizedCaption:
    """A tokenized caption: the index of its image, and its ids from first to last special
    token."""

    image_index: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class CaptionBatch:
    """Images with all their captions for teacher forcing.

    images: M normalised images. read: decoder input of B captions. targets: the tokens to predict.
    of: for each caption, the index of its image in `images`. real: True where a target is not
    padding. indices: indices of the images in the corpus. count: the number of targets without
    padding; None if they are to be counted.
    """

    examples: ClassVar[str] = "images"  # what `indices` count, for messages
    images: Float[Tensor, "M C Y X"]
    of: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    indices: tuple[int, ...] = ()
    count: int | None = None

    def to(self, device: str) -> CaptionBatch:
        """Return the batch on another device."""
        return CaptionBatch(
            upload(self.images, device),
            upload(self.of, device),
            upload(self.read, device),
            upload(self.targets, device),
            upload(self.real, device),
            self.indices,
            self.count,
        )


def by_image(captions: Sequence[TokenizedCaption]) -> dict[int, list[tuple[int, ...]]]:
    """Map the index of each image to the ids of its captions."""
    grouped: dict[int, list[tuple[int, ...]]] = {}
    for caption in captions:
        grouped.setdefault(caption.image_index, []).append(caption.ids)
    return grouped


def collate_captions(
    images: Float[Tensor, "M C Y X"],
    captions: Sequence[Sequence[tuple[int, ...]]],
    indices: Sequence[int],
) -> CaptionBatch:
    """Return normalised images and the captions of each image as one batch."""
    captions_with_image = [(i, ids) for i, of_image in enumerate(captions) for ids in of_image]
    read, real = padded([ids[:-1] for _, ids in captions_with_image], 0)
    targets, _ = padded([ids[1:] for _, ids in captions_with_image], 0)
    of = torch.tensor([i for i, _ in captions_with_image])
    return CaptionBatch(images, of, read, targets, real, tuple(indices), int(real.sum()))


class CaptionBatches:
    """An endless stream of batches that can start at any batch of any epoch.

    Each epoch has every image that has a caption once, with all its captions, so that it is encoded
    only once for them. The order depends only on (seed, epoch), the augmentation of an image only
    on (seed, epoch, its index).
    """

    def __init__(
        self,
        images: ImageCorpus,
        captions: Sequence[TokenizedCaption],
        normalise: Normalise,
        augmentation: AugmentationConfig,
        batch_size: int,
        seed: int,
    ) -> None:
        self.images, self.normalise = images, normalise
        self.augmentation, self.batch_size, self.seed = Augmentation(augmentation), batch_size, seed
        self.captions = by_image(captions)
        self.image_indices = sorted(self.captions)

    @property
    def examples_per_epoch(self) -> int:
        return len(self.image_indices)

    @property
    def batches_per_epoch(self) -> int:
        return -(-self.examples_per_epoch // self.batch_size)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, CaptionBatch]]:
        """Yield (next epoch, next position, batch), starting at batch `position` of `epoch`."""

        def make(chosen: list[int], number: int) -> CaptionBatch:
            return self.batch([self.image_indices[i] for i in chosen], number)

        return shuffled(len(self.image_indices), self.batch_size, self.seed, make, epoch, position)

    def batch(self, image_indices: Sequence[int], epoch: int) -> CaptionBatch:
        """Return the images with these indices, augmented as in epoch `epoch`, as a batch."""
        images = torch.stack([self._seen(index, epoch) for index in image_indices])
        captions = [self.captions[index] for index in image_indices]
        return collate_captions(self.normalise(images * 255), captions, image_indices)

    def _seen(self, index: int, epoch: int) -> Float[Tensor, "C Y X"]:
        return self.augmentation(self.images.image(index), view_generator(self.seed, epoch, index))
