"""An image classifier with its image reader and its classes: images in, classes out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

import torch

from headway.bundle import (
    Attention,
    Classified,
    InputSpec,
    Probe,
    ProbeRequest,
    Reading,
    Readout,
    StoredBundle,
    attention_of,
    class_names,
    image_patches,
)
from headway.bundle.image_encoder import (
    Picture,
    batches_of,
    check_reader,
    image_of,
    image_reading,
    vectors_of,
)
from headway.data.image_reader import ImageReader
from headway.errors import DataError
from headway.files import are_distinct_names, json_bytes, read_json, write_file
from headway.models import ViT, ViTClassifier
from headway.settings import required, setting
from headway.shapes import Float, Tensor

CLASSES_FILE = "classes.json"
FORMAT = 1


@dataclass(frozen=True)
class ImageClasses:
    """How a classifier reads images, and the names of its classes, in their order."""

    reader: ImageReader
    labels: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the numbers and the names of the classes depend on."""
        return hashlib.sha256(self.reader.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "labels": self.labels}
        return json_bytes(facts)

    def save(self, folder: Path) -> None:
        """Write images.json and classes.json."""
        self.reader.save(folder)
        write_file(folder / CLASSES_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ImageClasses:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / CLASSES_FILE
        facts = read_json(path)
        labels = facts.get("labels") if isinstance(facts, dict) else None
        if not are_distinct_names(labels) or facts.get("format") != FORMAT:
            raise DataError(f"not a list of classes (format {FORMAT})", str(path))
        return cls(ImageReader.load(folder), tuple(labels))


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """One input of an image classifier."""

    image: Path = required("images (.png .jpg .webp), or sounds (.wav) for a classifier of sounds")


@dataclass(frozen=True, kw_only=True)
class ImageClassOptions:
    """What may be chosen for a prediction."""

    top: int | None = setting(
        None,
        "Number of labels of each input, most probable first; if unset, 1 of a text, 5 of an "
        "image, with --json all.",
        gt=0,
    )


DEFAULTS = ImageClassOptions()


@dataclass(frozen=True, kw_only=True)
class ClassifiedImage:
    """The class of an image file. probabilities: of as many labels as were requested, the most
    probable first."""

    file: str
    label: str
    probabilities: dict[str, float]


class ImageClassifierBundle(StoredBundle):
    """An image classifier with its image reader and the names of its classes."""

    kind: ClassVar[str] = "image classifier"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image")
    reader_class = ImageClasses
    model: ViTClassifier

    def __init__(self, model: ViTClassifier, classes: ImageClasses) -> None:
        check_reader(classes.reader, model.config.vit)
        if len(classes.labels) != model.config.num_classes:
            raise DataError(
                f"there are {len(classes.labels)} labels, the model has "
                f"{model.config.num_classes} classes",
                hint="the model and the labels are not from the same training",
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
        """The encoder."""
        return self.model.vit

    def classify(self, pictures: Sequence[Picture]) -> list[Classified]:
        """What each picture shows, in order. What one gets does not depend on the others."""
        classified = []
        for images in batches_of(self.reader, pictures, self.device):
            probabilities = self.logits(images).softmax(-1).tolist()
            classified += [Classified.ranked(self.labels, row) for row in probabilities]
        return classified

    def predict(
        self,
        inputs: Sequence[ImageInput],
        options: ImageClassOptions = DEFAULTS,
        *,
        first: int = 1,
    ) -> list[ClassifiedImage]:
        """`classify` for image files, with as many labels of each as the options say."""
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
        """The logits of the classes of images as the reader makes them."""
        logits: Tensor = self.model(images).float()
        return logits

    def embed(
        self,
        pictures: Sequence[Picture],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """The encoder's vectors, as `ImageEncoderBundle.embed` gives them."""
        return vectors_of(self.vit, self.reader, pictures, pooling, normalise)

    def reading(self, picture: Picture) -> Reading:
        """What is read of one picture; the answer is the logits of its class."""
        images = image_of(self.reader, picture, self.device)
        return image_reading(self.model, self.vit, images, lambda: self.model(images), "vit.")

    def attention(
        self, picture: Picture, layers: Sequence[str] = (), heads: Sequence[int] = ()
    ) -> Attention:
        """Attention weights while one picture is looked at, as `ImageEncoderBundle.attention`."""
        return attention_of(self.reading(picture), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input)
        (classified,) = self.classify([request.input])
        vector = {"first": "x_[CLS]", "mean": "mean_p x_p", "both": "[x_[CLS], mean_p x_p]"}
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=classified.label,
            readout=Readout(
                side="picture",
                positions=[0],
                logits=lambda output: output,
                names=class_names(self.labels),
                equation=f"z = {vector[self.config.pooling]} W_c + b_c",
                function=ViTClassifier.classify,
            ),
            images={"picture": image_patches(self.vit, self.reader, request.input)},
        )
