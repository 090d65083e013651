"""Read and write preprocessor_config.json, the image preprocessing of a Hugging Face model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.data.image_reader import ImageReader, Resampling
from headway.errors import DataError
from headway.files import write_file
from headway.interop.hf_config import HFConfig, Ignored
from headway.models import ViTConfig

FILE = "preprocessor_config.json"
RESAMPLING: dict[int, Resampling] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of resampling filters -> our names."""
LARGEST = 1 << 14
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5,) * 3, (0.5,) * 3)
_RESIZE = 256 / 224  # shorter side after resizing / side of the centre crop, of DINO and DINOv2


_KIND = Ignored("the kind of the processor follows from the other keys")
_CALL = Ignored("it concerns how transformers calls the processor, not what that computes")
_UNUSED = Ignored("it has an effect only if the step that it belongs to is used")
IGNORED_KEYS: Mapping[str, Ignored] = {
    **dict.fromkeys(("feature_extractor_type", "processor_class", "image_processor_type"), _KIND),
    **dict.fromkeys(
        (
            *("return_tensors", "data_format", "input_data_format", "device"),
            *("disable_grouping", "_valid_processor_keys", "transformers_version"),
        ),
        _CALL,
    ),
    **dict.fromkeys(("crop_size", "image_mean", "image_std", "rescale_factor"), _UNUSED),
    "do_convert_rgb": Ignored("images have the channels of the model"),
    "default_to_square": Ignored("size says whether the image becomes square"),
    "do_pad": Ignored("Headway does not pad images", (False,), refused=True),
    "pad_size": Ignored("it has an effect only with do_pad"),
    "size_divisor": Ignored("Headway does not round sizes", (), refused=True),
}
"""Keys of preprocessor_config.json that Headway does not read."""


def read_image_reader(folder: Path, config: ViTConfig, model_type: str) -> ImageReader:
    """Return the image preprocessing of the model in `folder`.

    If the file is missing, the default of the family's released models is used. ViT: resize to
    the model's size, mean and standard deviation 0.5. DINOv2: resize the shorter side to 256
    pixels, centre crop of 224, mean and standard deviation of ImageNet. Raises DataError for
    preprocessing that Headway does not support.
    """
    path = folder / FILE
    if not path.exists():
        return _default(config, model_type, str(folder))
    preprocessing = HFConfig.load(path)
    for key in ("do_resize", "do_rescale"):
        preprocessing.must_be(key, True)
    mean, deviation = _normalisation(preprocessing, config.channels, path)
    scale = preprocessing.number("rescale_factor", 1 / 255, low=1e-9) * 255
    height, width, shorter = _size(preprocessing, path)
    number = preprocessing.values.get("resample", 2)
    if type(number) is not int or number not in RESAMPLING:
        raise preprocessing.refusal("resample", number, " or ".join(map(str, RESAMPLING)))
    preprocessing.check_all_read(IGNORED_KEYS)
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


def _default(config: ViTConfig, model_type: str, where: str) -> ImageReader:
    if config.channels != 3:
        raise DataError(
            f"there is no {FILE}, and the default is for 3 channels, but the model has "
            f"{config.channels}",
            where,
        )
    if model_type == "dinov2":
        side = 224 // config.patch_size * config.patch_size or config.patch_size
        mean, deviation = IMAGENET
        return ImageReader(
            height=side, width=side, shorter=round(side * _RESIZE), mean=mean, deviation=deviation
        )
    (y, x), (mean, deviation) = config.image, _HALF
    return ImageReader(height=y, width=x, mean=mean, deviation=deviation, resampling="bilinear")


def _normalisation(
    preprocessing: HFConfig, channels: int, path: Path
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not preprocessing.flag("do_normalize", True):
        return (0.0,) * channels, (1.0,) * channels
    parts, kind = [], str(preprocessing.values.get("image_processor_type", "ViT"))
    for key in ("image_mean", "image_std"):
        default = [0.5] * channels if kind.startswith("ViT") else None
        values = preprocessing.values.get(key, default)
        if (
            not isinstance(values, list)
            or len(values) != channels
            or not all(type(v) in (int, float) and abs(v) < 1e6 for v in values)
        ):
            raise preprocessing.refusal(key, values, f"{channels} numbers")
        parts.append(tuple(map(float, values)))
    mean, deviation = parts
    if min(deviation) <= 0:
        raise DataError(f"image_std={list(deviation)}: must be above 0", str(path))
    return mean, deviation


def _size(preprocessing: HFConfig, path: Path) -> tuple[int, int, int | None]:
    """Return height, width, and the length that the shorter side is resized to before the centre
    crop; None if there is no crop."""
    size, crops = preprocessing.values.get("size", 224), preprocessing.flag("do_center_crop", False)
    if isinstance(size, int) and crops:
        size = {"shortest_edge": size}
    elif isinstance(size, int):
        size = {"height": size, "width": size}
    if not isinstance(size, dict):
        raise preprocessing.refusal(
            "size", size, "a number, or an object with height and width or shortest_edge"
        )
    named = HFConfig(size, f"{path}, size")
    if "shortest_edge" not in size:
        height, width = (named.whole(key, below=LARGEST) for key in ("height", "width"))
        if crops and _crop(preprocessing, path) != (height, width):
            raise DataError(
                f"size={height} x {width} with another crop_size: resizing to a fixed size "
                "followed by a crop is not supported",
                str(path),
            )
        return height, width, None
    if not crops:
        raise DataError(
            "do_center_crop=False: images of different sizes are not supported; a fixed size is "
            "required",
            str(path),
        )
    height, width = _crop(preprocessing, path)
    return height, width, named.whole("shortest_edge", below=LARGEST)


def _crop(preprocessing: HFConfig, path: Path) -> tuple[int, int]:
    crop = preprocessing.values.get("crop_size", 224)
    if isinstance(crop, int):
        crop = {"height": crop, "width": crop}
    if not isinstance(crop, dict):
        raise preprocessing.refusal(
            "crop_size", crop, "a number, or an object with height and width"
        )
    named = HFConfig(crop, f"{path}, crop_size")
    return named.whole("height", below=LARGEST), named.whole("width", below=LARGEST)


def write_image_reader(reader: ImageReader, folder: Path) -> None:
    """Write the image preprocessing, the inverse of `read_image_reader`."""
    number = next(n for n, name in RESAMPLING.items() if name == reader.resampling)
    sides = {"height": reader.height, "width": reader.width}
    values: dict[str, Any] = {
        "do_resize": True,
        "resample": number,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(reader.mean),
        "image_std": list(reader.deviation),
    }
    if reader.shorter is None:
        values |= {"image_processor_type": "ViTImageProcessor", "size": sides}
    else:
        values |= {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": reader.shorter},
            "do_center_crop": True,
            "crop_size": sides,
        }
    if reader.channels == 3:
        values["do_convert_rgb"] = True
    write_file(folder / FILE, (json.dumps(values, indent=2) + "\n").encode())
