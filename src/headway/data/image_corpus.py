"""Pictures of one size in a folder, mapped: however many there are, memory holds a few."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headway.data.formats.images import LabelledImage
from headway.data.image_reader import ImageReader
from headway.data.parallel_corpus import mapped_numbers, verify_corpus
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.folders import new_folder
from headway.shapes import Float, Tensor

FORMAT = 1
FACTS_FILE, PIXELS_FILE, LABELS_FILE = "facts.json", "pixels.bin", "labels.bin"
_LABEL = np.dtype("<i4")
CHUNK = 256


class ImageCorpus:
    """pixels: N x channels x height x width bytes. labels: a class's number each, one of
    `classes`."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder = folder
        self.classes: tuple[str, ...] = tuple(facts["classes"])
        self.sizes: tuple[int, int, int] = tuple(facts["sizes"])  # channels, height, width
        count, numbers = facts["count"], int(np.prod(self.sizes))
        pixels = mapped_numbers(folder / PIXELS_FILE, np.dtype(np.uint8), count * numbers)
        self.pixels: npt.NDArray[np.uint8] = pixels.reshape(count, *self.sizes)
        self.labels: npt.NDArray[np.int32] = mapped_numbers(folder / LABELS_FILE, _LABEL, count)

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Float[Tensor, "C Y X"]:
        """One picture, from 0 to 1."""
        return torch.from_numpy(self.pixels[index].astype(np.float32) / 255)

    @classmethod
    def open(cls, folder: Path) -> ImageCorpus:
        """Map the pictures in `folder`. DataError where they are not what they must be."""
        verify_corpus(folder)
        path, again = folder / FACTS_FILE, "prepare the data again: remove this folder"
        facts = read_json(path)
        sizes = facts.get("sizes") if isinstance(facts, dict) else None
        if (
            not isinstance(sizes, list)
            or facts.get("format") != FORMAT
            or len(sizes) != 3
            or not all(type(n) is int and n > 0 for n in (*sizes, facts.get("count")))
            or not isinstance(facts.get("classes"), list)
        ):
            raise DataError(f"not pictures of format {FORMAT}", str(path), again)
        corpus = cls(folder, facts)
        if corpus.labels.min() < 0 or corpus.labels.max() >= len(corpus.classes):
            raise DataError("labels of classes that there are not", str(folder), again)
        return corpus


def prepare_images(
    images: Sequence[LabelledImage],
    classes: Sequence[str],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
) -> ImageCorpus:
    """Make all pictures of one size into the new folder `folder`, and open it.

    sized: says which size. DataError names the first picture that cannot be read; whatever goes
    wrong, no half-written folder stays.
    """
    with new_folder(folder) as place:
        write_images(images, classes, sized, place, progress)
    return ImageCorpus.open(folder)


def write_images(
    images: Sequence[LabelledImage],
    classes: Sequence[str],
    sized: ImageReader,
    place: Path,
    progress: Callable[[int], None],
) -> None:
    """The files of an `ImageCorpus`, in the folder `place`, which is there."""
    numbers = {label: i for i, label in enumerate(classes)}
    with (place / PIXELS_FILE).open("xb") as file:
        for count, image in enumerate(images, start=1):
            file.write(sized_pixels(image, sized).transpose(2, 0, 1).tobytes())
            if count % CHUNK == 0:
                progress(count)
    labels = np.array([numbers[image.label] for image in images], _LABEL)
    write_file(place / LABELS_FILE, labels.tobytes())
    sizes = [sized.channels, sized.height, sized.width]
    facts = {"format": FORMAT, "count": len(images), "sizes": sizes, "classes": list(classes)}
    write_file(place / FACTS_FILE, json.dumps(facts, ensure_ascii=False, indent=1).encode())


def sized_pixels(image: LabelledImage, sized: ImageReader) -> npt.NDArray[np.uint8]:
    """One picture as `sized` wants it. DataError names it."""
    pixels = image.pixels(at_least=sized.shorter or max(sized.height, sized.width))
    try:
        return sized.sized(pixels)
    except DataError as error:
        raise DataError(error.what, image.where, error.hint) from error


def mean_and_deviation(corpus: ImageCorpus) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of each channel, of numbers from 0 to 1. DataError for a channel that never varies."""
    channels = corpus.sizes[0]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(corpus), CHUNK):
        part = corpus.pixels[start : start + CHUNK]
        for channel in range(channels):
            counts[channel] += np.bincount(part[:, channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    shares = counts / counts.sum(1, keepdims=True)
    means = shares @ values
    deviations = np.sqrt(np.maximum(0, shares @ values**2 - means**2))
    if not (deviations > 0).all():
        raise DataError("all pixels of a channel are alike: there is nothing to see")
    return tuple(means.tolist()), tuple(deviations.tolist())
