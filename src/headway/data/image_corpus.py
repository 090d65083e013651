"""Prepared images of one size: a store whose rows are images, so that memory holds only a few;
and labelled images for evaluation, of a run or of files, which are read in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from headway.base.errors import DataError
from headway.base.files import are_distinct_names
from headway.base.shapes import Float, Tensor
from headway.data.formats.images import LabelledImage
from headway.data.image_reader import ImageReader
from headway.data.store import Store, new_store

TEXTS = "texts"
CHUNK = 256


@dataclass(frozen=True)
class ImageCorpus:
    """Prepared images and their classes.

    pixels: N x channels x height x width, uint8. labels: the class number of each image, an index
    of `classes`.
    """

    folder: Path
    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def image(self, index: int) -> Float[Tensor, "C Y X"]:
        """Return one image with values from 0 to 1."""
        return torch.from_numpy(self.pixels[index].astype(np.float32) / 255)

    @classmethod
    def open(cls, folder: Path, sized: ImageReader) -> ImageCorpus:
        """Map the images in `folder`.

        Raises DataError if the files are damaged or were resized by another reader than `sized`.
        """
        return cls.of(open_images(folder, sized), sized)

    @classmethod
    def of(cls, store: Store, sized: ImageReader) -> ImageCorpus:
        """Return the images of a store that `open_images` opened."""
        classes = store.metadata.get("classes")
        if not are_distinct_names(classes):
            raise store.error(f"the classes must be different names, but are {classes!r}")
        pixels = store.array("pixels", "uint8", (sized.channels, sized.height, sized.width))
        labels = store.array("labels", "int32", below=len(classes))
        return cls(store.folder, pixels, labels, tuple(classes))


def open_images(folder: Path, sized: ImageReader) -> Store:
    """Open the store of `prepare_images`, which may have texts too."""
    return Store.open(folder, _fingerprint(sized), "image reader")


def prepare_images(
    images: Sequence[LabelledImage],
    classes: Sequence[str],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
    texts: Sequence[str] = (),
) -> ImageCorpus:
    """Write all images, resized to one size, to the new folder `folder`, and open it.

    sized: resizes the images. progress: called with the number of images done. texts: a text of
    each image, or none. Raises DataError with the name of the first image that cannot be read.
    """
    numbers = {label: i for i, label in enumerate(classes)}
    with new_store(folder, _fingerprint(sized)) as store:
        store.metadata["classes"] = list(classes)
        store.append("labels", [numbers[image.label] for image in images], "int32")
        if texts:
            store.append_sequences(TEXTS, [text.encode() for text in texts], "uint8")
        for count, image in enumerate(images, start=1):
            pixels = sized_pixels(image, sized).transpose(2, 0, 1)
            store.append("pixels", pixels[None], "uint8")
            if count % CHUNK == 0:
                progress(count)
    return ImageCorpus.open(folder, sized)


def _fingerprint(sized: ImageReader) -> str:
    """Return the fingerprint of a reader without its normalisation, which is applied later."""
    channels = sized.channels
    return replace(sized, mean=(0.0,) * channels, deviation=(1.0,) * channels).fingerprint


def sized_pixels(image: LabelledImage, sized: ImageReader) -> npt.NDArray[np.uint8]:
    """Return the pixels of one image, resized by `sized`. Raises DataError with its name."""
    pixels = image.pixels(sized.conversion)
    try:
        return sized.sized(pixels)
    except DataError as error:
        raise DataError(error.what, image.where, error.hint) from error


def mean_and_deviation(corpus: ImageCorpus) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel, of values from 0 to 1.

    Raises DataError for a channel whose values are all equal.
    """
    channels = corpus.sizes[0]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(corpus), CHUNK):
        pixels = corpus.pixels[start : start + CHUNK]
        for channel in range(channels):
            counts[channel] += np.bincount(pixels[:, channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    fractions = counts / counts.sum(1, keepdims=True)
    means = fractions @ values
    deviations = np.sqrt(np.maximum(0, fractions @ values**2 - means**2))
    if not (deviations > 0).all():
        raise DataError(
            "all pixels of a channel of the training images are equal",
            str(corpus.folder),
            "check the images",
        )
    return tuple(means.tolist()), tuple(deviations.tolist())


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
