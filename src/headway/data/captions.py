"""Pictures with captions in a folder, and as an endless stream of batches that can be entered
anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.data.augmentation import Augmentation, AugmentationConfig
from headway.data.batches import padded
from headway.data.by_length import ByLength
from headway.data.formats.captions import CaptionedImage, Captions
from headway.data.image_batches import Normalise
from headway.data.image_corpus import ImageCorpus, prepare_images
from headway.data.image_reader import ImageReader
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.shapes import Bool, Float, Int, Tensor

FORMAT = 1
TEXTS_LIMIT = 2**30
_VIEW = 1  # what random numbers are for


class CaptionCorpus:
    """images: of one size, mapped. captions: of each, by language."""

    def __init__(self, images: ImageCorpus, captions: Sequence[Captions]) -> None:
        self.images, self.captions = images, captions

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def open(cls, folder: Path) -> CaptionCorpus:
        """What `prepare_captions` made. DataError where it is not what it must be."""
        path, images = _texts_file(folder), ImageCorpus.open(folder)
        facts = read_json(path, TEXTS_LIMIT)
        rows = facts.get("captions") if isinstance(facts, dict) else None
        if (
            not isinstance(rows, list)
            or facts.get("format") != FORMAT
            or len(rows) != len(images)
            or not all(_is_captions(row) for row in rows)
        ):
            raise DataError(
                f"not the captions (format {FORMAT}) of {len(images):,} pictures",
                str(path),
                "prepare the data again: remove this folder",
            )
        texts = [{name: tuple(said) for name, said in row.items()} for row in rows]
        return cls(images, texts)


def _is_captions(row: Any) -> bool:
    return isinstance(row, dict) and all(
        isinstance(said, list) and said and all(isinstance(text, str) for text in said)
        for said in row.values()
    )


def _texts_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.captions.json")


def prepare_captions(
    images: Sequence[CaptionedImage],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
) -> CaptionCorpus:
    """Make all pictures of one size into the new folder `folder`, captions beside it, and open it.

    DataError names the first picture that cannot be read; no half-written folder stays.
    """
    rows = [each.captions for each in images]
    text = json.dumps({"format": FORMAT, "captions": rows}, ensure_ascii=False)
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_file(_texts_file(folder), text.encode())  # first: the folder says that all is there
    prepare_images([each.image for each in images], ("",), sized, folder, progress)
    return CaptionCorpus.open(folder)


@dataclass(frozen=True)
class Spoken:
    """What is to be written of a picture: first token, pieces, last token."""

    picture: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class CaptionBatch:
    """Pictures with a caption each, for teacher forcing: the decoder reads `read` and predicts
    `targets`. real: where a target is no padding. indices: which captions these are."""

    images: Float[Tensor, "B C Y X"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> CaptionBatch:
        """The same on another device."""
        return CaptionBatch(
            self.images.to(device),
            self.read.to(device),
            self.targets.to(device),
            self.real.to(device),
            self.indices,
        )


class CaptionBatches:
    """An epoch has every caption once, those of like length together, in an order that follows
    from (seed, epoch); how its picture is changed follows from (seed, epoch, its number)."""

    def __init__(
        self,
        images: ImageCorpus,
        captions: Sequence[Spoken],
        normalise: Normalise,
        augmentation: AugmentationConfig,
        rows: int,
        seed: int,
    ) -> None:
        self.images, self.captions, self.normalise = images, captions, normalise
        self.augmentation, self.seed = Augmentation(augmentation), seed
        self.order = ByLength([len(each.ids) for each in captions], list, rows, seed)

    @property
    def batches_an_epoch(self) -> int:
        return self.order.batches_an_epoch

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, CaptionBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        for *following, chosen in self.order.stream(epoch, position):
            yield following[0], following[1], self.batch(chosen, epoch)
            epoch = following[0]

    def batch(self, indices: Sequence[int], epoch: int | None = None) -> CaptionBatch:
        """These captions, with their pictures as they are seen in that epoch; None: as they are."""
        chosen = [self.captions[index] for index in indices]
        pixels = [
            self._seen(each.picture, i, epoch) for i, each in zip(indices, chosen, strict=True)
        ]
        read, real = padded([each.ids[:-1] for each in chosen], 0)
        targets, _ = padded([each.ids[1:] for each in chosen], 0)
        images = self.normalise(torch.stack(pixels) * 255)
        return CaptionBatch(images, read, targets, real, tuple(indices))

    def in_order(self) -> Iterator[CaptionBatch]:
        """All captions once, pictures as they are: for evaluation."""
        for chosen in self.order.epoch(0):
            yield self.batch(chosen)

    def _seen(self, picture: int, index: int, epoch: int | None) -> Float[Tensor, "C Y X"]:
        image = torch.from_numpy(self.images.pixels[picture].astype(np.float32) / 255)
        if epoch is None:
            return image
        random = np.random.default_rng([self.seed, _VIEW, epoch, index])
        return self.augmentation(image, random)
