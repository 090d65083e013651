"""From images with labels to images of one size in the run folder; what exists is reused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.data.formats.images import LabelledImage, LabelledImages
from headway.data.image_corpus import ImageCorpus, mean_and_deviation, prepare_images
from headway.data.image_reader import FILE, ImageReader
from headway.data.image_sources import check_source, read_images
from headway.errors import DataError, UsageError
from headway.tasks.image_config import (
    ImageDataConfig,
    ImageEncoderSettings,
    LabelledImageDataConfig,
)
from headway.tasks.job import Emit
from headway.tasks.splits import check_known, check_sides, hold_out

DARK = 64
"""A note is shown if the brightest pixel of all images is darker."""


@dataclass(frozen=True)
class PreparedImages:
    """Images of one size to train on and to validate on. reader: how they are read."""

    reader: ImageReader
    train: ImageCorpus
    valid: ImageCorpus

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers."""
        return self.train.classes


def check_images(data: LabelledImageDataConfig, recipe: str) -> None:
    """UsageError unless there are images."""
    if not data.train:
        raise UsageError(
            "there are no pictures to learn from",
            hint=f"headway train {recipe} FOLDER, with a folder in it for each class; or a "
            ".zip, .npz or .parquet file, or --data digits",
        )
    for source in (*data.train, *data.valid):
        check_source(source)


def prepare_labelled_images(
    data: LabelledImageDataConfig,
    model: ImageEncoderSettings,
    start: ImageReader | None,
    folder: Path,
    emit: Emit,
    *,
    least_classes: int = 2,
) -> PreparedImages:
    """The images in `folder`, made once; and how they are read.

    start: how the model to start from reads images.
    """
    place = folder / "data"
    if all((path).exists() for path in (folder / FILE, place / "train", place / "valid")):
        train, valid = ImageCorpus.open(place / "train"), ImageCorpus.open(place / "valid")
        _tell(train, valid, emit, reused=True)
        return PreparedImages(ImageReader.load(folder), train, valid)
    examples = labelled_images(data, emit, least_classes)
    labels = tuple(_ordered({image.label for image in examples.train}))
    told = ", ".join(data.train), "--model.image-size 64"
    sized = sized_reader(model, data, start, examples.train, told)
    corpora = {}
    for name, images in (("train", examples.train), ("valid", examples.valid)):
        if (place / name).exists():
            corpora[name] = ImageCorpus.open(place / name)
            continue

        def progress(done: int, name: str = name) -> None:
            emit({"kind": "preparing", "what": name, "done": done, "unit": "pictures"})

        corpora[name] = prepare_images(images, labels, sized, place / name, progress)
    train, valid = corpora["train"], corpora["valid"]
    reader = sized
    if start is None:
        mean, deviation = mean_and_deviation(train)
        reader = replace(sized, mean=mean, deviation=deviation)
    note_dark(train, emit)
    _tell(train, valid, emit, reused=False)
    reader.save(folder)
    return PreparedImages(reader, train, valid)


def labelled_images(
    data: LabelledImageDataConfig,
    emit: Emit = lambda event: None,
    least_classes: int = 2,
) -> LabelledImages:
    """What is trained on, and what is held out: data.valid, or what train's sources have for that,
    or some of them.

    Which of them follows from an image's content (`hold_out`), so that one that occurs twice is not
    on both sides. The first image of a class that no training image has is not held out. DataError
    where a side is empty or has a class that is not learned, and for fewer classes than
    `least_classes`.
    """
    sources = read_images(data.train)
    train, valid = sources.train, sources.valid
    if sources.test:
        text = f"{len(sources.test):,} pictures called test are left for headway eval"
        emit({"kind": "note", "text": text})
    if data.valid:
        if valid:
            text = f"{len(valid):,} pictures called valid are left out: data.valid names others"
            emit({"kind": "note", "text": text})
        valid = read_images(data.valid).every
    elif not valid:
        train, valid = hold_out(
            train,
            content,
            data.held_out,
            labels=lambda image: (image.label,),
            emit=emit,
            unit="images",
        )
    _check_classes(train, valid, data, least_classes)
    return LabelledImages(train, valid)


def images_of_run(config: Any, run: Path) -> LabelledImageDataConfig:
    """Which labelled images a run was trained on. UsageError if it was not."""
    data = getattr(config, "data", None)
    if not isinstance(data, LabelledImageDataConfig):
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a folder of pictures"
        )
    return data


def content(image: LabelledImage) -> bytes:
    """What decides whether it is held out."""
    data = image.data()
    return data if isinstance(data, bytes) else data.tobytes()


def _check_classes(
    train: Sequence[LabelledImage],
    valid: Sequence[LabelledImage],
    data: LabelledImageDataConfig,
    least_classes: int,
) -> None:
    sources = ", ".join(data.train)
    hint = "--data.valid FOLDER, or another --data.held-out"
    check_sides(train, valid, f"{len(train) + len(valid):,} pictures", sources, hint)
    labels = {image.label for image in train}
    if len(labels) < least_classes:
        raise DataError(f"pictures of two classes are needed: all show {labels.pop()!r}", sources)
    check_known(
        ((image.label, image.where) for image in valid), labels, "class", "the training pictures"
    )


def _ordered(labels: set[str]) -> list[str]:
    """Numbers by their size, names by the alphabet."""
    if all(label.isdecimal() for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    return sorted(labels)


def sized_reader(
    model: ImageEncoderSettings,
    data: ImageDataConfig,
    start: ImageReader | None,
    images: Sequence[LabelledImage],
    told: tuple[str, str],
) -> ImageReader:
    """Which size and how many channels all pictures get. UsageError where none is told and they
    differ; told: where they come from, and what names a size."""
    shapes = Counter(image.shape() for image in images)
    sizes = {(y, x) for y, x, _ in shapes}
    if model.image_size is not None:
        height, width = model.image_size, model.image_width or model.image_size
    elif start is not None:
        height, width = start.height, start.width
    elif len(sizes) == 1:
        height, width = sizes.pop()
    elif data.fit == "pad":
        largest = (max(each) for each in zip(*sizes, strict=True))
        sides = zip(largest, model.patch, strict=True)
        height, width = (-(-side // patch) * patch for side, patch in sides)
    else:
        (y, x, _), (other_y, other_x, _) = [shape for shape, _ in shapes.most_common(2)]
        raise UsageError(
            f"pictures of {len(sizes):,} sizes ({x} x {y}, {other_x} x {other_y}, ...), and the "
            "model sees one",
            *told,
        )
    if start is not None:
        return start.of_size(height, width)
    channels = model.channels or max(count for _, _, count in shapes)
    return ImageReader(
        height=height,
        width=width,
        mean=(0.0,) * channels,
        deviation=(1.0,) * channels,
        shorter=max(height, width) if data.fit == "crop" else None,
        resampling=data.resampling,
        padded=data.fit == "pad",
    )


def note_dark(train: ImageCorpus, emit: Emit) -> None:
    """Tell of pictures that are all dark, which have another scale than others."""
    brightest = int(train.pixels.max())
    if brightest < DARK:
        text = (
            f"the brightest pixel is {brightest} of 255: other pictures must be as dark to be "
            "read right"
        )
        emit({"kind": "note", "text": text})


def _tell(train: ImageCorpus, valid: ImageCorpus, emit: Emit, *, reused: bool) -> None:
    for corpus in (train, valid):
        facts = {"what": corpus.folder.name, "count": len(corpus), "unit": "pictures"}
        emit({"kind": "prepared", **facts, "reused": reused})
    if len(train.classes) < 2:
        return
    number, count = Counter(valid.labels.tolist()).most_common(1)[0]
    emit(
        {
            "kind": "note",
            "text": f"{len(train.classes)} classes; to say {train.classes[number]!r} always is "
            f"right for {count / len(valid):.1%}",
        }
    )
