"""Labelled images for evaluation: the prepared images of a run, or files, read in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from headway.base.shapes import Float, Tensor
from headway.data.formats.images import LabelledImage
from headway.data.image_corpus import ImageCorpus, sized_pixels
from headway.data.image_reader import ImageReader


@dataclass(frozen=True)
class ImageExamples:
    """A sequence of labelled images.

    labels: the label of each image. where: returns the source of an image, for messages. pixels:
    returns the images of some indices in the size of a reader, N x C x Y x X; raises DataError with
    the name of an image that cannot be read.
    """

    labels: Sequence[str]
    where: Callable[[int], str]
    pixels: Callable[[Sequence[int], ImageReader], npt.NDArray[np.uint8]]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Sequence[int], reader: ImageReader) -> Float[Tensor, "B C Y X"]:
        """Return images as the normalised input of a model with that reader."""
        return reader.normalised(torch.from_numpy(self.pixels(indices, reader)))


def examples_of_corpus(corpus: ImageCorpus) -> ImageExamples:
    """Return the images of a corpus, which have the input size of the model."""
    return ImageExamples(
        [corpus.classes[number] for number in corpus.labels],
        lambda index: f"{corpus.folder}, image {index + 1}",
        lambda indices, reader: np.array(corpus.pixels[list(indices)]),
    )


def examples_of_images(images: Sequence[LabelledImage]) -> ImageExamples:
    """Return images that are decoded and resized when they are read, to the same pixels as in a
    corpus prepared from them."""
    return ImageExamples(
        [image.label for image in images],
        lambda index: images[index].where,
        lambda indices, reader: np.stack(
            [sized_pixels(images[i], reader).transpose(2, 0, 1) for i in indices]
        ),
    )
