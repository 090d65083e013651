"""A model of pictures, and how it reads them, as a Hugging Face folder that was checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from headway.data.image_reader import ImageReader
from headway.errors import HeadwayError
from headway.files import read_json
from headway.folders import new_folder
from headway.interop.hf_export import LARGEST_DIFFERENCE, Exported
from headway.interop.hf_folders import CONFIG_FILE, ImageModel, build, read, write
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import ViT

ROWS = 2


def export_images(
    model: ImageModel,
    reader: ImageReader,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
) -> Exported:
    """Write a folder that transformers opens, with preprocessor_config.json; on any fault there is
    none.

    Both are read again: the outputs for random pixels must be the model's to 1e-4, and pictures
    must be read as `reader` reads them. labels: names of a classifier's classes. HeadwayError where
    they are not, UsageError for what has no form there and for a folder that exists.
    """
    folder = Path(folder)
    with new_folder(folder) as place:
        written = write(model, place, family, labels=labels)
        write_image_reader(reader, place)
        difference = _difference(model, reader, place)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the folder's outputs differ by {difference:.2g}, more than "
                f"{LARGEST_DIFFERENCE:g}, from the model's: it was removed",
                str(folder),
            )
        vit = model.config if isinstance(model, ViT) else model.config.vit
        kind = str(read_json(place / CONFIG_FILE)["model_type"])
        if read_image_reader(place, vit, kind) != reader:
            raise HeadwayError(
                "the folder would read pictures otherwise: it was removed", str(folder)
            )
    return Exported(folder=folder, architecture=written, difference=difference, texts=0)


@torch.no_grad()
def _difference(model: ImageModel, reader: ImageReader, place: Path) -> float:
    """The largest between two outputs for the same random pixels."""
    weight = next(model.parameters())
    again = build(*read(place), dtype=weight.dtype).to(weight.device)
    draw = torch.Generator().manual_seed(0)
    shape = (ROWS, reader.channels, reader.height, reader.width)
    images = torch.randn(shape, generator=draw).to(weight.device, weight.dtype)
    training = model.training
    try:
        ours = model.eval()(images)
    finally:
        model.train(training)
    return float((again(images) - ours).abs().max())
