"""Prepared images of one size in a folder, memory-mapped, so that memory holds only a few."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.base.shapes import Float, Tensor
from headway.data.formats.images import LabelledImage
from headway.data.image_reader import ImageReader
from headway.data.store import mapped_numbers, verify_corpus

FORMAT = 1
DESCRIPTION_FILE, PIXELS_FILE, LABELS_FILE = "description.json", "pixels.bin", "labels.bin"
_LABEL = np.dtype("<i4")
CHUNK = 256


class ImageCorpus:
    """Prepared images and their classes.

    pixels: N x channels x height x width, uint8. labels: the class number of each image, an index
    of `classes`. sizes: channels, height, width.
    """

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder = folder
        self.classes: tuple[str, ...] = tuple(description["classes"])
        self.sizes: tuple[int, int, int] = tuple(description["sizes"])  # channels, height, width
        count, values_per_image = description["count"], int(np.prod(self.sizes))
        pixels = mapped_numbers(folder / PIXELS_FILE, np.dtype(np.uint8), count * values_per_image)
        self.pixels: npt.NDArray[np.uint8] = pixels.reshape(count, *self.sizes)
        self.labels: npt.NDArray[np.int32] = mapped_numbers(folder / LABELS_FILE, _LABEL, count)

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Float[Tensor, "C Y X"]:
        """Return one image with values from 0 to 1."""
        return torch.from_numpy(self.pixels[index].astype(np.float32) / 255)

    @classmethod
    def open(cls, folder: Path) -> ImageCorpus:
        """Map the images in `folder`. Raises DataError if the files are damaged."""
        verify_corpus(folder)
        path = folder / DESCRIPTION_FILE
        hint = "delete this folder to prepare the data again"
        description = read_json(path)
        sizes = description.get("sizes") if isinstance(description, dict) else None
        if (
            not isinstance(sizes, list)
            or description.get("format") != FORMAT
            or len(sizes) != 3
            or not all(type(n) is int and n > 0 for n in (*sizes, description.get("count")))
            or not isinstance(description.get("classes"), list)
        ):
            raise DataError(
                f"the file does not describe images of format {FORMAT}", str(path), hint
            )
        corpus = cls(folder, description)
        if corpus.labels.min() < 0 or corpus.labels.max() >= len(corpus.classes):
            raise DataError(
                f"class numbers must be from 0 to {len(corpus.classes) - 1}, but one is not",
                str(folder),
                hint,
            )
        return corpus


def prepare_images(
    images: Sequence[LabelledImage],
    classes: Sequence[str],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
) -> ImageCorpus:
    """Write all images, resized to one size, to the new folder `folder`, and open it.

    sized: resizes the images. progress: called with the number of images done. Raises DataError
    with the name of the first image that cannot be read. After any error no partial folder remains.
    """
    with new_folder(folder) as temporary:
        write_images(images, classes, sized, temporary, progress)
    return ImageCorpus.open(folder)


def write_images(
    images: Sequence[LabelledImage],
    classes: Sequence[str],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None],
) -> None:
    """Write the files of an `ImageCorpus` to the existing folder `folder`."""
    numbers = {label: i for i, label in enumerate(classes)}
    with (folder / PIXELS_FILE).open("xb") as file:
        for count, image in enumerate(images, start=1):
            file.write(sized_pixels(image, sized).transpose(2, 0, 1).tobytes())
            if count % CHUNK == 0:
                progress(count)
    labels = np.array([numbers[image.label] for image in images], _LABEL)
    write_file(folder / LABELS_FILE, labels.tobytes())
    sizes = [sized.channels, sized.height, sized.width]
    description = {"format": FORMAT, "count": len(images), "sizes": sizes, "classes": list(classes)}
    write_file(
        folder / DESCRIPTION_FILE, json.dumps(description, ensure_ascii=False, indent=1).encode()
    )


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
