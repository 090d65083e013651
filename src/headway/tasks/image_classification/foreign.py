"""Image classifiers of Hugging Face folders (`...ForImageClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import ViTClassifier
from headway.tasks.image_classification.bundle import ImageClasses, ImageClassifierBundle


def from_hugging_face(model: ViTClassifier, folder: Path, model_type: str) -> ImageClassifierBundle:
    """The model with how its folder says that images are read, and the names of its classes."""
    reader = interop.read_image_reader(folder, model.config.vit, model_type)
    labels = interop.read_labels(folder, model_type)
    return ImageClassifierBundle(model, ImageClasses(reader, labels))


def to_hugging_face(bundle: ImageClassifierBundle, folder: Path, family: str | None) -> Exported:
    """The folder of an image classifier, with its labels and how it reads images."""
    return interop.export_images(bundle.model, bundle.reader, folder, family, bundle.labels)
