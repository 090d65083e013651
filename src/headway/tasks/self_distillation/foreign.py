"""Image encoders of Hugging Face folders: ViT, DINO, DINOv2."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import ImageEncoderBundle
from headway.interop import Exported
from headway.models import ViT


def from_hugging_face(model: ViT, folder: Path, model_type: str) -> ImageEncoderBundle:
    """The model with how its folder says that images are read."""
    return ImageEncoderBundle(model, interop.read_image_reader(folder, model.config, model_type))


def to_hugging_face(bundle: ImageEncoderBundle, folder: Path, family: str | None) -> Exported:
    """The folder of an image encoder, with how it reads images."""
    return interop.export_images(bundle.model, bundle.reader, folder, family)
