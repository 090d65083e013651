"""Labelled images for evaluation: the prepared images of a run, or files, read in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from headway.base.shapes import Float, Tensor
from headway.data.formats.images import LabelledImage
from headway.data.image_corpus import ImageCorpus, sized_pixels
from headway.data.image_reader import ImageReader


@runtime_checkable
class ImageExamples(Protocol):
    """A sequence of labelled images."""

    def __len__(self) -> int: ...

    @property
    def labels(self) -> Sequence[str]:
        """The label of each image."""
        ...

    def where(self, index: int) -> str:
        """Return the source of an image, for messages."""
        ...

    def batch(self, indices: Sequence[int], reader: ImageReader) -> Float[Tensor, "B C Y X"]:
        """Return these images as the normalised input of a model with that reader. Raises DataError
        with the name of an image that cannot be read."""
        ...


@dataclass(frozen=True)
class PreparedExamples:
    """The images of a corpus, prepared in the input size of the model."""

    corpus: ImageCorpus

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def labels(self) -> Sequence[str]:
        return [self.corpus.classes[number] for number in self.corpus.labels]

    def where(self, index: int) -> str:
        return f"{self.corpus.folder}, image {index + 1}"

    def batch(self, indices: Sequence[int], reader: ImageReader) -> Float[Tensor, "B C Y X"]:
        return reader.normalised(torch.from_numpy(np.array(self.corpus.pixels[list(indices)])))


@dataclass(frozen=True)
class FileExamples:
    """Images that are decoded and resized when they are read. The pixels are the same as in a
    corpus prepared from them."""

    images: Sequence[LabelledImage]

    def __len__(self) -> int:
        return len(self.images)

    @property
    def labels(self) -> Sequence[str]:
        return [image.label for image in self.images]

    def where(self, index: int) -> str:
        return self.images[index].where

    def batch(self, indices: Sequence[int], reader: ImageReader) -> Float[Tensor, "B C Y X"]:
        pixels = [sized_pixels(self.images[i], reader).transpose(2, 0, 1) for i in indices]
        return reader.normalised(torch.from_numpy(np.stack(pixels)))
