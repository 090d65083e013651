"""Images with captions as a stream of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Float, Int, Tensor
from headway.data.augmentation import AugmentationConfig, augmented, view_generator
from headway.data.image_corpus import ImageCorpus
from headway.data.image_reader import Normalise
from headway.data.padding import padded
from headway.data.stream import Batch, Indices


@dataclass(frozen=True)
class TokenizedCaption:
    """A tokenized caption: the index of its image, and its ids from first to last special
    token."""

    image_index: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class CaptionBatch(Batch):
    """Images with all their captions for teacher forcing.

    images: M normalised images. read: decoder input of B captions. targets: the tokens to predict.
    of: for each caption, the index of its image in `images`. real: True where a target is not
    padding. indices: indices of the images in the corpus. count: the number of targets without
    padding; None if they are to be counted.
    """

    examples = "images"
    images: Float[Tensor, "M C Y X"]
    of: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    indices: tuple[int, ...] = ()
    count: int | None = None


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


class CaptionedImages:
    """Makes batches of images with all their captions, so that an image is encoded only once for
    them. The augmentation of an image depends only on (seed, epoch, its index).

    images_with_captions: the indices of the images with a caption, in order.
    """

    def __init__(
        self,
        images: ImageCorpus,
        captions: Sequence[TokenizedCaption],
        normalise: Normalise,
        augmentation: AugmentationConfig,
        seed: int,
    ) -> None:
        self.images, self.normalise, self.seed = images, normalise, seed
        self.augmentation, self.captions = augmentation, by_image(captions)
        self.images_with_captions = sorted(self.captions)

    def batch(self, numbers: Indices, epoch: int) -> CaptionBatch:
        """Return images, as positions in `images_with_captions`, augmented as in epoch `epoch`."""
        indices = [self.images_with_captions[number] for number in numbers]
        images = torch.stack([self._seen(index, epoch) for index in indices])
        captions = [self.captions[index] for index in indices]
        return collate_captions(self.normalise(images * 255), captions, indices)

    def _seen(self, index: int, epoch: int) -> Float[Tensor, "C Y X"]:
        random = view_generator(self.seed, epoch, index)
        return augmented(self.images.image(index), self.augmentation, random)
