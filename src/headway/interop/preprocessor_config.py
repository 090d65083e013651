"""preprocessor_config.json: how a Hugging Face model reads pictures, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.data.image_reader import ImageReader, Resampling
from headway.errors import DataError
from headway.files import write_file
from headway.interop.hf_config import Facts
from headway.models import ViTConfig

FILE = "preprocessor_config.json"
RESAMPLING: dict[int, Resampling] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers -> our names."""
LARGEST = 1 << 14
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5,) * 3, (0.5,) * 3)
_CUT = 256 / 224  # what the shorter side is to the side that is cut out, in DINO's and DINOv2's


def read_image_reader(folder: Path, config: ViTConfig, model_type: str) -> ImageReader:
    """How pictures are to be read for the model in `folder`; where the file is missing, as the
    family's released models have it (ViT: pressed into its size, mean and deviation 0.5. DINOv2:
    256 pixels, of which 224 are cut out, ImageNet's mean and deviation).

    DataError for what has no form here.
    """
    path = folder / FILE
    if not path.exists():
        return _usual(config, model_type, str(folder))
    facts = Facts.load(path)
    for key in ("do_resize", "do_rescale"):
        facts.must_be(key, True)
    mean, deviation = _normalisation(facts, config.channels, path)
    scale = facts.number("rescale_factor", 1 / 255, low=1e-9) * 255
    height, width, shorter = _size(facts, path)
    number = facts.values.get("resample", 2)
    if type(number) is not int or number not in RESAMPLING:
        raise facts.refusal("resample", number, " or ".join(map(str, RESAMPLING)))
    try:
        return ImageReader(
            height=height,
            width=width,
            shorter=shorter,
            # x f - m = (x / 255 - m / 255 f) 255 f
            mean=tuple(m / scale for m in mean),
            deviation=tuple(s / scale for s in deviation),
            resampling=RESAMPLING[number],
        )
    except ValueError as error:
        raise DataError(str(error), str(path)) from error


def _usual(config: ViTConfig, model_type: str, where: str) -> ImageReader:
    if config.channels != 3:
        raise DataError(f"there is no {FILE}, and pictures are not in colour", where)
    if model_type == "dinov2":
        side = 224 // config.patch_size * config.patch_size or config.patch_size
        mean, deviation = IMAGENET
        return ImageReader(
            height=side, width=side, shorter=round(side * _CUT), mean=mean, deviation=deviation
        )
    (y, x), (mean, deviation) = config.image, _HALF
    return ImageReader(height=y, width=x, mean=mean, deviation=deviation, resampling="bilinear")


def _normalisation(
    facts: Facts, channels: int, path: Path
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not facts.flag("do_normalize", True):
        return (0.0,) * channels, (1.0,) * channels
    found, kind = [], str(facts.values.get("image_processor_type", "ViT"))
    for key in ("image_mean", "image_std"):
        usual = [0.5] * channels if kind.startswith("ViT") else None
        values = facts.values.get(key, usual)
        if (
            not isinstance(values, list)
            or len(values) != channels
            or not all(type(v) in (int, float) and abs(v) < 1e6 for v in values)
        ):
            raise facts.refusal(key, values, f"{channels} numbers")
        found.append(tuple(map(float, values)))
    mean, deviation = found
    if min(deviation) <= 0:
        raise DataError("image_std: must be above 0", str(path))
    return mean, deviation


def _size(facts: Facts, path: Path) -> tuple[int, int, int | None]:
    """(height, width, what the shorter side becomes first or None)."""
    size, crops = facts.values.get("size", 224), facts.flag("do_center_crop", False)
    if isinstance(size, int) and crops:
        size = {"shortest_edge": size}
    elif isinstance(size, int):
        size = {"height": size, "width": size}
    if not isinstance(size, dict):
        raise facts.refusal("size", size, "a number, or named numbers")
    named = Facts(size, f"{path}, size")
    if "shortest_edge" not in size:
        height, width = (named.whole(key, below=LARGEST) for key in ("height", "width"))
        if crops and _crop(facts, path) != (height, width):
            raise DataError("a picture pressed into a size and cut out again", str(path))
        return height, width, None
    if not crops:
        raise DataError(
            "pictures of many sizes (do_center_crop is false): here have one", str(path)
        )
    height, width = _crop(facts, path)
    return height, width, named.whole("shortest_edge", below=LARGEST)


def _crop(facts: Facts, path: Path) -> tuple[int, int]:
    crop = facts.values.get("crop_size", 224)
    if isinstance(crop, int):
        crop = {"height": crop, "width": crop}
    if not isinstance(crop, dict):
        raise facts.refusal("crop_size", crop, "a number, or height and width")
    named = Facts(crop, f"{path}, crop_size")
    return named.whole("height", below=LARGEST), named.whole("width", below=LARGEST)


def write_image_reader(reader: ImageReader, folder: Path) -> None:
    """The way back."""
    number = next(n for n, name in RESAMPLING.items() if name == reader.resampling)
    sides = {"height": reader.height, "width": reader.width}
    facts: dict[str, Any] = {
        "do_resize": True,
        "resample": number,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(reader.mean),
        "image_std": list(reader.deviation),
    }
    if reader.shorter is None:
        facts |= {"image_processor_type": "ViTImageProcessor", "size": sides}
    else:
        facts |= {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": reader.shorter},
            "do_center_crop": True,
            "crop_size": sides,
        }
    if reader.channels == 3:
        facts["do_convert_rgb"] = True
    write_file(folder / FILE, (json.dumps(facts, indent=2) + "\n").encode())
