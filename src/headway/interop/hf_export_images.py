"""Export an image model with its image preprocessing as a verified Hugging Face folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from headway.base.errors import HeadwayError
from headway.base.files import read_json
from headway.base.folders import new_folder
from headway.data.image_reader import ImageReader
from headway.interop.hf_export import LARGEST_DIFFERENCE, Exported
from headway.interop.hf_folders import CONFIG_FILE, ImageModel, build, read, write
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import ViT
from headway.transforms.quantize import float32_copy

ROWS = 2


def export_images(
    model: ImageModel,
    reader: ImageReader,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
) -> Exported:
    """Write a folder for transformers, with preprocessor_config.json.

    The export is verified: the weights are loaded again and must reproduce the model's outputs for
    random pixels to 1e-4, and the image preprocessing must equal `reader`; on any error
    no folder is left. labels: names of a classifier's classes. Raises HeadwayError if the
    verification fails, UsageError for a model that cannot be represented and for a folder that
    exists.
    """
    folder, model = Path(folder), float32_copy(model)
    with new_folder(folder) as temporary:
        written = write(model, temporary, family, labels=labels)
        write_image_reader(reader, temporary)
        difference = _difference(model, reader, temporary)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the outputs differ by {difference:.2g} between the model and the exported folder,"
                f" more than {LARGEST_DIFFERENCE:g}; the folder was removed",
                str(folder),
            )
        vit = model.config if isinstance(model, ViT) else model.config.vit
        kind = str(read_json(temporary / CONFIG_FILE)["model_type"])
        if read_image_reader(temporary, vit, kind) != reader:
            raise HeadwayError(
                "the image preprocessing cannot be represented in Hugging Face's format; the "
                "folder was removed",
                str(folder),
            )
    return Exported(folder=folder, architecture=written, difference=difference, texts=0)


@torch.no_grad()
def _difference(model: ImageModel, reader: ImageReader, folder: Path) -> float:
    """Return the maximum absolute difference between both models' outputs for random pixels."""
    weight = next(model.parameters())
    exported = build(*read(folder), dtype=weight.dtype).to(weight.device)
    generator = torch.Generator().manual_seed(0)
    shape = (ROWS, reader.channels, reader.height, reader.width)
    images = torch.randn(shape, generator=generator).to(weight.device, weight.dtype)
    training = model.training
    try:
        ours = model.eval()(images)
    finally:
        model.train(training)
    return float((exported(images) - ours).abs().max())
