"""Conversion of image encoders from and to Hugging Face folders: ViT, DINO, DINOv2."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import ImageEncoderBundle
from headway.interop import Exported
from headway.models import ViT


def from_hugging_face(model: ViT, folder: Path, model_type: str) -> ImageEncoderBundle:
    """Make a bundle of the model with the image reader of the folder."""
    return ImageEncoderBundle(model, interop.read_image_reader(folder, model.config, model_type))


def to_hugging_face(bundle: ImageEncoderBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the image encoder and its image reader."""
    return interop.export_images(bundle.model, bundle.reader, folder, family)
