"""Pictures with captions in a folder, and as an endless stream of batches that can be entered
anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.data.augmentation import Augmentation, AugmentationConfig
from headway.data.batches import padded
from headway.data.formats.captions import CaptionedImage, Captions
from headway.data.image_batches import Normalise, seen_by, shuffled
from headway.data.image_corpus import ImageCorpus, write_images
from headway.data.image_reader import ImageReader
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.folders import new_folder
from headway.shapes import Bool, Float, Int, Tensor

FORMAT = 1
TEXTS_LIMIT = 2**30
TEXTS_FILE = "captions.json"


class CaptionCorpus:
    """images: of one size, mapped. captions: of each, by language."""

    def __init__(self, images: ImageCorpus, captions: Sequence[Captions]) -> None:
        self.images, self.captions = images, captions

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def open(cls, folder: Path) -> CaptionCorpus:
        """What `prepare_captions` made. DataError where it is not what it must be."""
        images, path = ImageCorpus.open(folder), folder / TEXTS_FILE
        if not path.exists():  # where version 0.1.0 wrote it
            path = folder.with_name(f"{folder.name}.{TEXTS_FILE}")
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


def prepare_captions(
    images: Sequence[CaptionedImage],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
) -> CaptionCorpus:
    """Make all pictures of one size into the new folder `folder`, with their captions, and open it.

    DataError names the first picture that cannot be read; no half-written folder stays.
    """
    rows = [each.captions for each in images]
    text = json.dumps({"format": FORMAT, "captions": rows}, ensure_ascii=False)
    with new_folder(folder) as place:
        write_file(place / TEXTS_FILE, text.encode())
        write_images([each.image for each in images], ("",), sized, place, progress)
    return CaptionCorpus.open(folder)


@dataclass(frozen=True)
class Spoken:
    """What is to be written of a picture: first token, pieces, last token."""

    picture: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class CaptionBatch:
    """Pictures with all their captions, for teacher forcing: the decoder reads `read` and predicts
    `targets`. of: the picture that a caption belongs to, by its place here. real: where a target is
    no padding. indices: where in the corpus the pictures stand."""

    examples: ClassVar[str] = "images"  # what `indices` count, for messages
    images: Float[Tensor, "M C Y X"]
    of: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> CaptionBatch:
        """The same on another device."""
        return CaptionBatch(
            self.images.to(device),
            self.of.to(device),
            self.read.to(device),
            self.targets.to(device),
            self.real.to(device),
            self.indices,
        )


def by_image(captions: Sequence[Spoken]) -> dict[int, list[tuple[int, ...]]]:
    """Number of an image -> its captions."""
    grouped: dict[int, list[tuple[int, ...]]] = {}
    for caption in captions:
        grouped.setdefault(caption.picture, []).append(caption.ids)
    return grouped


def collate_captions(
    images: Float[Tensor, "M C Y X"],
    captions: Sequence[Sequence[tuple[int, ...]]],
    indices: Sequence[int],
) -> CaptionBatch:
    """Images as the model reads them, with the captions of each, as one batch."""
    owners = [(i, ids) for i, of_image in enumerate(captions) for ids in of_image]
    read, real = padded([ids[:-1] for _, ids in owners], 0)
    targets, _ = padded([ids[1:] for _, ids in owners], 0)
    of = torch.tensor([i for i, _ in owners])
    return CaptionBatch(images, of, read, targets, real, tuple(indices))


class CaptionBatches:
    """An epoch has every picture that has a caption once, with all its captions, so that it is
    looked at once for them; the order follows from (seed, epoch), and how a picture is changed from
    (seed, epoch, its number)."""

    def __init__(
        self,
        images: ImageCorpus,
        captions: Sequence[Spoken],
        normalise: Normalise,
        augmentation: AugmentationConfig,
        rows: int,
        seed: int,
    ) -> None:
        self.images, self.normalise = images, normalise
        self.augmentation, self.rows, self.seed = Augmentation(augmentation), rows, seed
        self.captions = by_image(captions)
        self.pictures = sorted(self.captions)

    @property
    def batches_an_epoch(self) -> int:
        return -(-len(self.pictures) // self.rows)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, CaptionBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""

        def make(chosen: list[int], number: int) -> CaptionBatch:
            return self.batch([self.pictures[i] for i in chosen], number)

        return shuffled(len(self.pictures), self.rows, self.seed, make, epoch, position)

    def batch(self, pictures: Sequence[int], epoch: int) -> CaptionBatch:
        """These pictures as they are seen in that epoch."""
        images = torch.stack([self._seen(picture, epoch) for picture in pictures])
        captions = [self.captions[picture] for picture in pictures]
        return collate_captions(self.normalise(images * 255), captions, pictures)

    def _seen(self, picture: int, epoch: int) -> Float[Tensor, "C Y X"]:
        return self.augmentation(self.images.image(picture), seen_by(self.seed, epoch, picture))
