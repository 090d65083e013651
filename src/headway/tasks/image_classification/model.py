"""The bundle of an image classifier: model, image reader and classes; and its Hugging Face folders
(`...ForImageClassification`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from headway import interop
from headway.base.errors import UsageError
from headway.base.files import are_distinct_names
from headway.base.shapes import Float, Tensor
from headway.bundle import (
    Classified,
    ClassifiedImage,
    ImageClassOptions,
    ImageEncoding,
    ImageInput,
    ImageTextBundle,
    ImageTextReader,
    Preprocessing,
    Readout,
    StoredReader,
    check_outputs,
    class_names,
)
from headway.bundle.arguments import checked
from headway.bundle.image_encoder import AnyImage, batches_of, check_reader
from headway.data.image_reader import ImageReader
from headway.models import ImageText, ViT, ViTClassifier


@dataclass(frozen=True)
class ImageClasses(StoredReader):
    """The image reader of a classifier, and the names of its classes, in order."""

    FILE: ClassVar[str] = "classes.json"
    reader: ImageReader
    labels: tuple[str, ...]

    def contents(self) -> tuple[Preprocessing, dict[str, object]]:
        return self.reader, {"labels": self.labels}

    @classmethod
    def load(cls, folder: Path) -> ImageClasses:
        settings = cls.load_settings(
            folder, lambda it: are_distinct_names(it.get("labels")), "a list of classes"
        )
        return cls(ImageReader.load(folder), tuple(settings["labels"]))


DEFAULTS = ImageClassOptions()


class ImageClassifierBundle(ImageEncoding):
    """An image classifier with its image reader and the names of its classes."""

    kind: ClassVar[str] = "image classifier"
    encoder_name: ClassVar[str] = "vit."
    reader_class = ImageClasses
    model: ViTClassifier

    def __init__(self, model: ViTClassifier, classes: ImageClasses) -> None:
        check_reader(classes.reader, model.config.vit)
        check_outputs(len(classes.labels), model.config.num_classes)
        super().__init__(model, classes)
        self.classes, self.reader = classes, classes.reader

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes.labels

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
        """Classify image files, with as many labels per image as the options request.

        Raises UsageError for other labels than those of the model.
        """
        if options.labels is not None or options.template != DEFAULTS.template:
            raise UsageError(
                "labels and template are for models of images and texts (CLIP, SigLIP); this "
                f"classifier has its own {len(self.labels)} labels",
                hint="leave them out",
            )
        classified = self.classify([item.image for item in inputs])
        return Classified.of_images(inputs, classified, options)

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
        logits = {
            "first": "x_[CLS] W_c + b_c",
            "mean": "mean_p x_p W_c + b_c",
            "both": "[x_[CLS], mean_p x_p] W_c + b_c",
            "distilled": "(x_[CLS] W_c + b_c + x_[DIST] W_d + b_d) / 2",
        }
        readout = Readout(
            side="image",
            positions=[0],
            logits=lambda output: output,
            names=class_names(self.labels),
            equation=f"z = {logits[self.config.pooling]}",
            function=ViTClassifier.classify,
        )
        return classified.label, readout


def from_hugging_face(model: ViTClassifier, folder: Path, model_type: str) -> ImageClassifierBundle:
    """Make a bundle of the model with the image reader and the class names of the folder."""
    reader = interop.read_image_reader(folder, model.config.vit, model_type)
    labels = interop.read_labels(folder, model_type)
    return ImageClassifierBundle(model, ImageClasses(reader, labels))


def to_hugging_face(
    bundle: ImageClassifierBundle | ImageTextBundle, folder: Path, family: str | None
) -> str:
    """Write a Hugging Face folder with the image classifier, its labels and its image reader."""
    assert isinstance(bundle, ImageClassifierBundle)  # the only kind that is registered with it
    return interop.write_image_model(bundle.model, bundle.reader, folder, family, bundle.labels)


def image_text_from_hugging_face(
    model: ImageText, folder: Path, model_type: str
) -> ImageTextBundle:
    """Make a bundle of the model with the image reader and the tokenizer of the folder."""
    images = interop.read_image_reader(folder, model.config.vit, model_type)
    tokenizer, frame = interop.read_paired_texts(folder, model.config, model_type)
    return ImageTextBundle(model, ImageTextReader(images, tokenizer, frame))
