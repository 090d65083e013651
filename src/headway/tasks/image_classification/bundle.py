"""The bundle of an image classifier: model, image reader and classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import torch

from headway.base.errors import DataError
from headway.base.files import are_distinct_names, json_bytes, read_json, write_file
from headway.base.settings import required, setting
from headway.base.shapes import Float, Tensor
from headway.bundle import Classified, ImageEncoding, Readout, class_names
from headway.bundle.arguments import checked
from headway.bundle.image_encoder import AnyImage, batches_of, check_reader
from headway.data.image_reader import ImageReader
from headway.models import ViT, ViTClassifier

CLASSES_FILE = "classes.json"
FORMAT = 1


@dataclass(frozen=True)
class ImageClasses:
    """The image reader of a classifier, and the names of its classes, in order."""

    reader: ImageReader
    labels: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything that pixels and labels depend on."""
        return hashlib.sha256(self.reader.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        metadata = {"format": FORMAT, "labels": self.labels}
        return json_bytes(metadata)

    def save(self, folder: Path) -> None:
        """Write images.json and classes.json."""
        self.reader.save(folder)
        write_file(folder / CLASSES_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ImageClasses:
        """Load the files that `save` wrote. Raises DataError if they are invalid."""
        path = folder / CLASSES_FILE
        metadata = read_json(path)
        labels = metadata.get("labels") if isinstance(metadata, dict) else None
        if not are_distinct_names(labels) or metadata.get("format") != FORMAT:
            raise DataError(f"not a list of classes (format {FORMAT})", str(path))
        return cls(ImageReader.load(folder), tuple(labels))


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """One input of an image classifier."""

    image: Path = required(
        "images (.png .jpg .webp .gif .bmp .tif), or sounds (.wav) for a classifier of sounds"
    )


@dataclass(frozen=True, kw_only=True)
class ImageClassOptions:
    """Options of a prediction."""

    top: int | None = setting(
        None,
        "Number of labels per input, most probable first; if unset, 1 for a text, 5 for an image, "
        "and all with --json.",
        gt=0,
    )


DEFAULTS = ImageClassOptions()


@dataclass(frozen=True, kw_only=True)
class ClassifiedImage:
    """The predicted class of an image file.

    probabilities: of the requested number of labels, most probable first.
    """

    file: str
    label: str
    probabilities: dict[str, float]


class ImageClassifierBundle(ImageEncoding):
    """An image classifier with its image reader and the names of its classes."""

    kind: ClassVar[str] = "image classifier"
    encoder_name: ClassVar[str] = "vit."
    reader_class = ImageClasses
    model: ViTClassifier

    def __init__(self, model: ViTClassifier, classes: ImageClasses) -> None:
        check_reader(classes.reader, model.config.vit)
        if len(classes.labels) != model.config.num_classes:
            raise DataError(
                f"there are {len(classes.labels)} labels, but the model has "
                f"{model.config.num_classes} classes",
                hint="use the labels with which the model was trained",
            )
        super().__init__(model, classes)
        self.classes = classes

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes.labels

    @property
    def reader(self) -> ImageReader:
        return self.classes.reader

    @property
    def vit(self) -> ViT:
        return self.model.vit

    @checked
    def classify(self, images: Sequence[AnyImage]) -> list[Classified]:
        """Classify images, in order. The result of an image does not depend on the other images."""
        classified = []
        for batch in batches_of(self.reader, images, self.device):
            probabilities = self.logits(batch).softmax(-1).tolist()
            classified += [Classified.ranked(self.labels, row) for row in probabilities]
        return classified

    def predict(
        self,
        inputs: Sequence[ImageInput],
        options: ImageClassOptions = DEFAULTS,
        *,
        first: int = 1,
    ) -> list[ClassifiedImage]:
        """Classify image files, with as many labels per image as the options request."""
        classified = self.classify([item.image for item in inputs])
        return [
            ClassifiedImage(
                file=str(item.image),
                label=prediction.label,
                probabilities=dict(islice(prediction.probabilities.items(), options.top)),
            )
            for item, prediction in zip(inputs, classified, strict=True)
        ]

    @torch.inference_mode()
    def logits(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B K"]:
        """Compute the logits of the classes for images that the reader converted to tensors."""
        logits: Tensor = self.model(images).float()
        return logits

    def output(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B K"]:
        logits: Tensor = self.model(images)
        return logits

    def _prediction(self, image: AnyImage) -> tuple[str, Readout]:
        (classified,) = self.classify([image])
        vector = {"first": "x_[CLS]", "mean": "mean_p x_p", "both": "[x_[CLS], mean_p x_p]"}
        readout = Readout(
            side="image",
            positions=[0],
            logits=lambda output: output,
            names=class_names(self.labels),
            equation=f"z = {vector[self.config.pooling]} W_c + b_c",
            function=ViTClassifier.classify,
        )
        return classified.label, readout
