"""Conversion of image classifiers from and to Hugging Face (`...ForImageClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import ViTClassifier
from headway.tasks.image_classification.bundle import ImageClasses, ImageClassifierBundle


def from_hugging_face(model: ViTClassifier, folder: Path, model_type: str) -> ImageClassifierBundle:
    """Make a bundle of the model with the image reader and the class names of the folder."""
    reader = interop.read_image_reader(folder, model.config.vit, model_type)
    labels = interop.read_labels(folder, model_type)
    return ImageClassifierBundle(model, ImageClasses(reader, labels))


def to_hugging_face(bundle: ImageClassifierBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the image classifier, its labels and its image reader."""
    return interop.export_images(bundle.model, bundle.reader, folder, family, bundle.labels)
