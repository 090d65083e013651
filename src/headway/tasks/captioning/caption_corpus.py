"""Images of one size and their captions on disk: a store of images with a text of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from headway.base.files import parse_json
from headway.data.image_corpus import TEXTS, ImageCorpus, open_images, prepare_images
from headway.data.image_reader import ImageReader
from headway.tasks.captioning.caption_files import CaptionedImage, Captions


@dataclass(frozen=True)
class CaptionCorpus:
    """Images of one size, memory-mapped from disk, and the captions of each image by language."""

    images: ImageCorpus
    captions: Sequence[Captions]

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def open(cls, folder: Path, sized: ImageReader) -> CaptionCorpus:
        """Open a folder that `prepare_captions` wrote.

        Raises DataError if it is damaged or its images were resized by another reader than `sized`.
        """
        store = open_images(folder, sized)
        texts, offsets = store.sequences(TEXTS, "uint8")
        captions: list[Captions] = []
        for start, end in pairwise(offsets.tolist()):
            by_language = parse_json(texts[start:end].tobytes(), str(folder))
            if not _is_captions(by_language):
                what = f"row {len(captions)} must have captions by language, but does not"
                raise store.error(what, f"{TEXTS}.bin")
            captions.append({name: tuple(group) for name, group in by_language.items()})
        return cls(ImageCorpus.of(store, sized), captions)


def _is_captions(row: Any) -> bool:
    return isinstance(row, dict) and all(
        isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)
        for texts in row.values()
    )


def prepare_captions(
    images: Sequence[CaptionedImage],
    sized: ImageReader,
    folder: Path,
    progress: Callable[[int], None] = lambda count: None,
) -> CaptionCorpus:
    """Write images, resized to one size, and their captions to the new folder `folder`; open it.

    The captions of an image are JSON. The arguments and errors are those of `prepare_images`.
    """
    rows = [json.dumps(image.captions, ensure_ascii=False) for image in images]
    labelled = [image.image for image in images]
    corpus = prepare_images(labelled, ("",), sized, folder, progress, rows)
    return CaptionCorpus(corpus, [image.captions for image in images])
