"""Read and write preprocessor_config.json, the image preprocessing of a Hugging Face model.

Every key is used, refused, or named in a warning. Files are converted to colour as transformers
does, before its processors see them (`transformers.image_utils.load_image`): the EXIF orientation
is applied, and Pillow's `convert("RGB")` ignores transparency. `do_convert_rgb` then only changes
pixels of a transparent colour (`images.Conversion`). A model of Headway's that converts files
otherwise says so in a key of its own, `CONVERSION`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from headway.base.errors import DataError
from headway.base.files import json_bytes, write_file
from headway.data.image_reader import ImageReader, Resampling
from headway.data.images import Conversion
from headway.interop.hf_config import HFConfig, Ignored
from headway.interop.ignored_keys import PROCESSOR
from headway.models import ViTConfig

FILE = "preprocessor_config.json"
PROCESSOR_FILE, PART = "processor_config.json", "image_processor"
"""The file of transformers 5 for a model of images and texts, and its part with the same keys."""
RESAMPLING: dict[int, Resampling] = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}
"""Pillow's numbers of resampling filters -> our names."""
LARGEST = 1 << 14
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5,) * 3, (0.5,) * 3)
_CONVERSIONS: dict[str, Conversion] = {name: name for name in get_args(Conversion)}
_RESIZE = 256 / 224  # shorter side after resizing / side of the centre crop, of DINO and DINOv2

_VIT: Mapping[str, object] = {
    "size": {"height": 224, "width": 224},
    "default_to_square": True,
    "resample": 2,
    "do_center_crop": False,
    "do_convert_rgb": False,
    "image_mean": 0.5,
    "image_std": 0.5,
}
_BIT: Mapping[str, object] = {
    "size": {"shortest_edge": 224},
    "default_to_square": False,
    "resample": 3,
    "do_center_crop": True,
    "crop_size": 224,
    "do_convert_rgb": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
PROCESSORS: Mapping[str, Mapping[str, object]] = {
    "ViT": _VIT,
    "Beit": {**_VIT, "resample": 3},
    "DeiT": {**_VIT, "size": 256, "resample": 3, "do_center_crop": True, "crop_size": 224},
    "Bit": _BIT,
    "CLIP": _BIT,
    "Siglip": {**_VIT, "resample": 3, "do_convert_rgb": True},
    "DINOv3ViT": {**_VIT, "image_mean": list(IMAGENET[0]), "image_std": list(IMAGENET[1])},
}
"""Image processor of transformers -> the values of keys that its file does not have."""
_OF_MODELS = {
    "vit": "ViT",
    "deit": "DeiT",
    "beit": "Beit",
    "dinov3_vit": "DINOv3ViT",
    "dinov2": "Bit",
    "clip": "CLIP",
    "siglip": "Siglip",
}
"""Type of a model -> the processor of a file that names none."""
CONVERSION = "headway_conversion"
"""Key with `ImageReader.conversion`, for Headway; transformers ignores it."""
_OFF = Ignored("a step that is switched off has no effect", (False,))


def read_image_reader(folder: Path, config: ViTConfig, model_type: str) -> ImageReader:
    """Return the image preprocessing of the model in `folder`.

    If the file is missing, the default of the family's released models is used. ViT: resize to
    the model's size, mean and standard deviation 0.5. DINOv2: resize the shorter side to 256
    pixels, centre crop of 224, mean and standard deviation of ImageNet. Other families have no
    default. Raises DataError for a missing file, for preprocessing that Headway does not support,
    and warns of keys that it does not know.
    """
    path = folder / FILE
    if path.exists():
        preprocessing = _completed(HFConfig.load(path), model_type)
    elif (folder / PROCESSOR_FILE).exists():
        path = folder / PROCESSOR_FILE
        preprocessing = _completed(_part(path), model_type)
    else:
        return _default(config, model_type, str(folder))
    _check(preprocessing, config)
    mean, deviation = _normalisation(preprocessing, config.channels, path)
    rescales = preprocessing.flag("do_rescale", True)
    factor = preprocessing.number("rescale_factor", 1 / 255, low=1e-9) if rescales else 1.0
    scale = factor * 255
    (height, width), shorter, squashed = _geometry(preprocessing, path)
    number = preprocessing.values["resample"]
    if type(number) is not int or number not in RESAMPLING:
        raise preprocessing.refusal("resample", number, " or ".join(map(str, RESAMPLING)))
    default = "processor" if preprocessing.flag("do_convert_rgb", False) else "pillow"
    conversion = preprocessing.choice(CONVERSION, _CONVERSIONS, default)
    switched_off = [key for key, value in preprocessing.values.items() if value is False]
    preprocessing.check_all_read({**dict.fromkeys(switched_off, _OFF), **PROCESSOR})
    try:
        return ImageReader(
            height=height,
            width=width,
            shorter=shorter,
            squashed=squashed,
            # x f - m = (x / 255 - m / 255 f) 255 f
            mean=tuple(m / scale for m in mean),
            deviation=tuple(s / scale for s in deviation),
            resampling=RESAMPLING[number],
            conversion=conversion,
        )
    except ValueError as error:
        raise DataError(str(error), str(path)) from error


def _geometry(
    preprocessing: HFConfig, path: Path
) -> tuple[tuple[int, int], int | None, tuple[int, int] | None]:
    """Return the size of the result, `ImageReader.shorter` and `ImageReader.squashed`."""
    height, width = _size(preprocessing, path)
    shorter: int | None = None
    squashed: tuple[int, int] | None = None
    if preprocessing.flag("do_center_crop", False):
        crop = _sides(preprocessing, "crop_size", path)
        if width < max(crop) if height is None else (height < crop[0] or width < crop[1]):
            raise DataError(
                f"crop_size={crop[0]} x {crop[1]} is larger than size="
                f"{preprocessing.values['size']}: padding is not supported",
                str(path),
            )
        if height is None:
            shorter = width
        elif (height, width) != crop:
            squashed = height, width
        height, width = crop
    elif height is None:
        raise DataError(
            "size with shortest_edge, and do_center_crop=False: images of different sizes are not "
            "supported; a fixed size is required",
            str(path),
            "use size with height and width, or do_center_crop with crop_size",
        )
    return (height, width), shorter, squashed


def _part(path: Path) -> HFConfig:
    """Return the preprocessing of images in the file of a whole processor."""
    whole = HFConfig.load(path)
    values = whole.values.get(PART)
    if not isinstance(values, dict):
        raise whole.refusal(PART, values, "an object (names and values)")
    return HFConfig(values, f"{path}, {PART}")


def _completed(preprocessing: HFConfig, model_type: str) -> HFConfig:
    """Return the contents of a file with the default values of its processor."""
    values = preprocessing.values
    default = f"{_OF_MODELS.get(model_type, 'ViT')}ImageProcessor"
    key = "feature_extractor_type"
    if "image_processor_type" in values or key not in values:
        key = "image_processor_type"
    name = str(values.get(key, default))
    kind = name.removesuffix("Fast").removesuffix("Pil")
    kind = kind.removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    if kind not in PROCESSORS:
        known = " or ".join(f"{processor}ImageProcessor" for processor in PROCESSORS)
        raise preprocessing.refusal(key, name, known)
    return HFConfig({**PROCESSORS[kind], **values}, preprocessing.where)


def _check(preprocessing: HFConfig, config: ViTConfig) -> None:
    """Raise DataError for values that are not supported."""
    preprocessing.must_be("do_resize", True)
    preprocessing.must_be("do_pad", False)
    preprocessing.must_be("use_square_size", False)
    preprocessing.must_be("data_format", "channels_first")
    if preprocessing.flag("do_convert_rgb", False) and config.channels != 3:
        raise preprocessing.refusal(
            "do_convert_rgb", True, f"false, as the model has {config.channels} channel"
        )


def _default(config: ViTConfig, model_type: str, where: str) -> ImageReader:
    if config.channels != 3:
        raise DataError(
            f"there is no {FILE}, and the default is for 3 channels, but the model has "
            f"{config.channels}",
            where,
        )
    if model_type not in ("vit", "dinov2"):
        raise DataError(
            f"there is no {FILE}, which says how images become pixels", where, f"add {FILE}"
        )
    if model_type == "dinov2":
        side = 224 // config.patch_size * config.patch_size or config.patch_size
        (height, width), (mean, deviation) = (side, side), IMAGENET
        shorter, resampling = round(side * _RESIZE), RESAMPLING[3]
        conversion: Conversion = "processor"
    else:
        (height, width), (mean, deviation) = config.image, _HALF
        shorter, resampling, conversion = None, RESAMPLING[2], "pillow"
    return ImageReader(
        height=height,
        width=width,
        shorter=shorter,
        mean=mean,
        deviation=deviation,
        resampling=resampling,
        conversion=conversion,
    )


def _normalisation(
    preprocessing: HFConfig, channels: int, path: Path
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not preprocessing.flag("do_normalize", True):
        return (0.0,) * channels, (1.0,) * channels
    parts = []
    for key in ("image_mean", "image_std"):
        values = preprocessing.values[key]
        if type(values) in (int, float):
            values = [values] * channels
        if (
            not isinstance(values, list)
            or len(values) != channels
            or not all(type(v) in (int, float) and abs(v) < 1e6 for v in values)
        ):
            raise preprocessing.refusal(key, values, f"{channels} numbers, or one")
        parts.append(tuple(map(float, values)))
    mean, deviation = parts
    if min(deviation) <= 0:
        raise DataError(f"image_std={list(deviation)}: must be above 0", str(path))
    return mean, deviation


def _size(preprocessing: HFConfig, path: Path) -> tuple[int | None, int]:
    """Return the height and width to which images are resized; (None, length) if the shorter side
    is resized to that length."""
    size = preprocessing.values["size"]
    if type(size) is int and not preprocessing.flag("default_to_square", True):
        size = {"shortest_edge": size}
    if isinstance(size, dict) and size.keys() == {"shortest_edge"}:
        return None, HFConfig(size, f"{path}, size").whole("shortest_edge", below=LARGEST)
    return _sides(preprocessing, "size", path)


def _sides(preprocessing: HFConfig, key: str, path: Path) -> tuple[int, int]:
    """Return a height and a width: one number for both, two in a list, or an object."""
    sides = preprocessing.values.get(key)
    if isinstance(sides, list) and len(sides) == 2:
        sides = dict(zip(("height", "width"), sides, strict=True))
    elif type(sides) is int:
        sides = {"height": sides, "width": sides}
    if not isinstance(sides, dict) or sides.keys() != {"height", "width"}:
        edge = ", or an object with shortest_edge" if key == "size" else ""
        raise preprocessing.refusal(
            key, sides, f"a number, or an object with height and width{edge}"
        )
    named = HFConfig(sides, f"{path}, {key}")
    return named.whole("height", below=LARGEST), named.whole("width", below=LARGEST)


def write_image_reader(reader: ImageReader, folder: Path) -> None:
    """Write the image preprocessing, the inverse of `read_image_reader`."""
    number = next(n for n, name in RESAMPLING.items() if name == reader.resampling)
    sides = {"height": reader.height, "width": reader.width}
    values: dict[str, object] = {
        "do_resize": True,
        "resample": number,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(reader.mean),
        "image_std": list(reader.deviation),
    }
    if reader.squashed is not None:
        height, width = reader.squashed
        values |= {
            "image_processor_type": "DeiTImageProcessor",
            "size": {"height": height, "width": width},
            "do_center_crop": True,
            "crop_size": sides,
        }
    elif reader.shorter is None:
        values |= {"image_processor_type": "ViTImageProcessor", "size": sides}
    else:
        values |= {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": reader.shorter},
            "do_center_crop": True,
            "crop_size": sides,
        }
    values["do_convert_rgb"] = reader.channels == 3 and reader.conversion != "pillow"
    if reader.conversion == "blend":
        values[CONVERSION] = reader.conversion
    write_file(folder / FILE, json_bytes(values))
