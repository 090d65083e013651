"""Labelled images: reads and splits them, writes them in one size to the run folder, and loads the
pre-trained image encoder of a run."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.bundle import ImageEncoding
from headway.data.formats.images import LabelledImage, LabelledImages
from headway.data.formats.parquet import BY_NAME, ImageColumns
from headway.data.image_corpus import ImageCorpus, mean_and_deviation, prepare_images
from headway.data.image_reader import FILE, ImageReader
from headway.data.image_sources import check_source, parquet_files, read_images
from headway.data.media_kinds import is_wav
from headway.data.prepared import Progress, prepared
from headway.data.split import check_known, check_sides, hold_out, majority_baseline
from headway.tasks.image_config import (
    SHAPE,
    ImageDataConfig,
    ImageEncoderSettings,
    LabelledImageDataConfig,
)
from headway.tasks.job import Emit
from headway.tasks.opening import load

DARK = 64
"""A note is shown if the brightest pixel of all images is below this value."""


@dataclass(frozen=True)
class PreparedImages:
    """Training and validation images of one size. reader: the reader that made them."""

    reader: ImageReader
    train: ImageCorpus
    valid: ImageCorpus

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their indices."""
        return self.train.classes


def check_images(data: LabelledImageDataConfig, recipe: str) -> None:
    """Raise UsageError if no images are named, or if a file or folder is missing."""
    if not data.train:
        raise UsageError(
            "no training images are named",
            hint=f"headway train {recipe} FOLDER, which has a subfolder for each class; or a "
            ".zip, .npz or .parquet file, or --data digits",
        )
    sources = (*data.train, *data.valid)
    for source in sources:
        check_source(source)
    if not any(parquet_files(Path(source)) for source in sources):
        for key, column in (("image", data.image), ("label", data.label)):
            if column is not None:
                raise UsageError(
                    f"data.{key}={column} names a column of .parquet files, but there are none",
                    hint=f"leave out --data.{key}",
                )


@dataclass(frozen=True, kw_only=True)
class ImageSource:
    """The images of a run before they are prepared.

    splits, texts: "train" and "valid" -> the images, and a text of each image, if they have texts.
    classes: the names of the classes, in the order of their indices. where: their files.
    """

    splits: Mapping[str, Sequence[LabelledImage]]
    classes: Sequence[str]
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    where: str


def prepare_splits(
    read: Callable[[], ImageSource],
    model: ImageEncoderSettings,
    data: ImageDataConfig,
    start: ImageReader | None,
    folder: Path,
    emit: Emit,
    *,
    key: str = "model",
) -> PreparedImages:
    """Prepare the training and validation images in the run folder, or reuse them.

    read: reads the images, if they are not prepared yet. model: the requested shape of the encoder;
    key: its section in the configuration. start: the image reader of the pre-trained model, or
    None.
    """
    reader = ImageReader.load(folder) if (folder / FILE).exists() else None
    source = cache(read)

    @cache
    def sized() -> ImageReader:
        hint = f"--{key}.image-size 64"
        return reader or sized_reader(
            model, data, start, source().splits["train"], source().where, hint
        )

    def split(name: str) -> ImageCorpus:
        def make(path: Path, progress: Progress) -> ImageCorpus:
            images, texts = source().splits[name], source().texts.get(name, ())
            return prepare_images(images, source().classes, sized(), path, progress, texts)

        return prepared(
            folder / "data" / name,
            lambda path: ImageCorpus.open(path, sized()),
            make,
            lambda corpus: {"count": len(corpus), "unit": "images"},
            emit,
            "images",
        )

    train, valid = split("train"), split("valid")
    if reader is None:
        reader = sized()
        if start is None:
            mean, deviation = mean_and_deviation(train)
            reader = replace(reader, mean=mean, deviation=deviation)
        _warn_of_dark_images(train, emit)
        reader.save(folder)
    return PreparedImages(reader, train, valid)


def prepare_labelled_images(
    data: LabelledImageDataConfig,
    model: ImageEncoderSettings,
    start: ImageReader | None,
    folder: Path,
    emit: Emit,
    *,
    least_classes: int = 2,
) -> PreparedImages:
    """Prepare labelled images by `prepare_splits`. least_classes: the minimum number of classes."""

    def read() -> ImageSource:
        images = labelled_images(data, emit, least_classes)
        return ImageSource(
            splits={"train": images.train, "valid": images.valid},
            classes=_ordered({image.label for image in images.train}),
            where=", ".join(data.train),
        )

    images = prepare_splits(read, model, data, start, folder, emit)
    _note_baseline(images.train, images.valid, emit)
    return images


def labelled_images(
    data: LabelledImageDataConfig,
    emit: Emit = lambda event: None,
    least_classes: int = 2,
    columns: ImageColumns | None = None,
) -> LabelledImages:
    """Read the training images and the validation images.

    The validation images are data.valid if set, else the validation split of data.train if it has
    one, else a held-out fraction of data.train. The content of an image decides whether it is held
    out (`hold_out`), so that duplicates are in the same split. The first image of a class without
    a training image is not held out. columns: those of .parquet files; None: those of the
    configuration. Raises DataError if a split is empty, if a class has no
    training image, or if there are fewer classes than `least_classes`.
    """
    columns = columns or data.columns
    sources = read_images(data.train, columns)
    train, valid = sources.train, sources.valid
    if sources.test:
        text = f"{len(sources.test):,} images of the test split are left for headway eval"
        emit({"kind": "note", "text": text})
    if data.valid:
        if valid:
            text = f"{len(valid):,} images of the validation split are left out: data.valid is set"
            emit({"kind": "note", "text": text})
        valid = read_images(data.valid, columns).every
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


def images_of_run(config: object, run: Path) -> LabelledImageDataConfig:
    """Return the data section of a run. Raises UsageError if it was not trained on images."""
    data = getattr(config, "data", None)
    if not isinstance(data, LabelledImageDataConfig):
        raise UsageError(
            f"{run} is no run that was trained on labelled images", hint="name a folder of images"
        )
    return data


def columns_of(config: object) -> ImageColumns:
    """Return the columns of .parquet files for the evaluation of a model.

    config: the configuration of its run, or None. They are those of its training images.
    """
    data = getattr(config, "data", None)
    if isinstance(data, LabelledImageDataConfig):
        return replace(data.columns, flags="")
    return BY_NAME


def content(image: LabelledImage) -> bytes:
    """Return the bytes that decide whether an image is held out."""
    data = image.data()
    return data if isinstance(data, bytes) else data.tobytes()


def digest(image: LabelledImage) -> str:
    """Return a word that only equal images share."""
    return hashlib.sha256(content(image)).hexdigest()


def _check_classes(
    train: Sequence[LabelledImage],
    valid: Sequence[LabelledImage],
    data: LabelledImageDataConfig,
    least_classes: int,
) -> None:
    sources = ", ".join(data.train)
    hint = "--data.valid FOLDER, or another --data.held-out"
    check_sides(train, valid, f"{len(train) + len(valid):,} images", sources, hint, content)
    labels = {image.label for image in train}
    if len(labels) < least_classes:
        raise DataError(
            f"expected images of at least {least_classes} classes, but all training images have "
            f"the class {labels.pop()!r}",
            sources,
        )
    check_known(
        ((image.label, image.where) for image in valid), labels, "class", "the training images"
    )


def _ordered(labels: set[str]) -> list[str]:
    """Sort the names of classes: by value if all are numbers, else alphabetically."""
    if all(label.isdecimal() for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    return sorted(labels)


def sized_reader(
    model: ImageEncoderSettings,
    data: ImageDataConfig,
    start: ImageReader | None,
    images: Sequence[LabelledImage],
    where: str,
    hint: str,
) -> ImageReader:
    """Determine the size and the number of channels of all images, and return their reader.

    Raises UsageError, with `where` and `hint`, if no size is set and the images have different
    sizes.
    """
    shapes = Counter(image.shape() for image in images)
    sizes = {(y, x) for y, x, _ in shapes}
    if model.image_size is not None:
        height, width = model.image_size, model.image_width or model.image_size
    elif start is not None:
        height, width = start.height, start.width
    elif len(sizes) == 1:
        height, width = sizes.pop()
    elif data.fit == "pad":
        largest = (max(lengths) for lengths in zip(*sizes, strict=True))
        sides = zip(largest, model.patch, strict=True)
        height, width = (-(-side // patch) * patch for side, patch in sides)
    else:
        first = images[0].data()
        if isinstance(first, bytes) and is_wav(first):
            raise UsageError(
                f"the sounds have {len(sizes):,} lengths, but the model needs one",
                where,
                "the recipes sound (classes) and transcribe (texts) pad them",
            )
        (y, x, _), (second_y, second_x, _) = [shape for shape, _ in shapes.most_common(2)]
        raise UsageError(
            f"the images have {len(sizes):,} sizes ({x} x {y}, {second_x} x {second_y}, ...), but "
            "the model needs one size",
            where,
            hint,
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


def _warn_of_dark_images(train: ImageCorpus, emit: Emit) -> None:
    """Emit a note if all training images are dark, as if their pixels had another scale."""
    brightest = int(train.pixels.max())
    if brightest < DARK:
        text = (
            f"the brightest pixel of the training images is {brightest} of 255; images to classify "
            "need the same scale"
        )
        emit({"kind": "note", "text": text})


def _note_baseline(train: ImageCorpus, valid: ImageCorpus, emit: Emit) -> None:
    """Emit the accuracy of the most frequent class, if there are several classes."""
    if len(train.classes) < 2:
        return
    baseline = majority_baseline(train.classes[number] for number in valid.labels.tolist())
    emit({"kind": "note", "text": f"{len(train.classes)} classes; {baseline}"})


def load_image_encoder(name: str | None, model: str) -> ImageEncoding | None:
    """Load the pre-trained image encoder, if one is named.

    model: the model that is trained, in words, for the error. Raises UsageError if `name` is
    another kind of model.
    """
    if name is None:
        return None
    start = load(name, "cpu", dtype="float32")
    if not isinstance(start, ImageEncoding):
        raise UsageError(
            f"{name} holds a {start.kind}; {model} needs a pre-trained image encoder or image "
            "classifier",
            hint="headway train dino IMAGES trains an image encoder",
        )
    return start


def decided_settings(
    requested: ImageEncoderSettings,
    reader: ImageReader,
    start: ImageEncoding | None,
    *,
    key: str = "model",
    defaults: ImageEncoderSettings | None = None,
) -> dict[str, object]:
    """Return the settings of the encoder that the images and the pre-trained model decide.

    requested: the settings of the run, in section `key`. defaults: the settings that count as
    unset; if None, the defaults of their class. Raises UsageError if a setting was requested that
    differs from the pre-trained model's.
    """
    decided: dict[str, object] = {}
    if start is not None:
        defaults = defaults or type(requested)()
        decided = settings_of_pretrained(key, requested, defaults, start.vit.config, SHAPE)
    width = None if reader.width == reader.height else reader.width
    size = {"image_size": reader.height, "image_width": width, "channels": reader.channels}
    return decided | {f"{key}.{name}": value for name, value in size.items()}


def settings_of_pretrained(
    key: str, requested: object, defaults: object, start: object, names: Sequence[str]
) -> dict[str, object]:
    """Return the settings `names`, dotted if nested, of the pre-trained model `start`, in section
    `key`.

    Raises UsageError if a setting was requested that is neither the default nor the pre-trained
    model's value.
    """
    for name in names:
        read = attrgetter(name)
        value, pre_trained = read(requested), read(start)
        if value not in (read(defaults), pre_trained) and name != "image_width":
            raise UsageError(
                f"{key}.{name}={value}, but the pre-trained model has {pre_trained}",
                hint=f"leave {key}.{name} unset",
            )
    return {f"{key}.{name}": attrgetter(name)(start) for name in names}
