"""Decodes untrusted image files safely, and resizes images.

A sound file is read as an image, its spectrogram (`sound.sound_pixels`), so image models can
process sound. Pillow decodes the files: only the formats of `FORMATS`, from bytes in memory, and
never an image that is too large by its header.
"""

from __future__ import annotations

import io
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError, HeadwayError, HeadwayWarning, UsageError
from headway.base.files import read_bytes
from headway.data.media_kinds import is_wav, recognised, remedy_of

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
"""Height x width x channels, 1 (grey) or 3 (red, green, blue), from 0 to 255."""

Conversion = Literal["blend", "pillow", "processor"]
"""How files become grey or colour.

blend: transparent pixels are blended with white, and 16 bits are scaled to 8. pillow: as by
Pillow's `convert("RGB")`, with which transformers reads files: transparency is ignored, and values
above 255 are clipped. processor: as pillow, but all pixels of the one colour that a file declares
transparent (GIF, or PNG without an alpha channel) become white, as by `do_convert_rgb` of
transformers 5.
"""

FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jfif"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
}
"""Pillow's names of the formats that are read -> suffixes."""
ENDINGS = (*(suffix for suffixes in FORMATS.values() for suffix in suffixes), ".wav")
FORMAT_NAMES = "PNG, JPEG, WebP, GIF, BMP or TIFF"
BYTES_LIMIT = 64 * 2**20
PIXELS_LIMIT = 25_000_000
LONGEST = 1 << 16  # pixels along a side
_GREY = {"1", "L", "I;16", "I;16B", "I;16L", "I;16N", "I"}
_MIDDLE = 257  # 65,535 / 255: sixteen bits to eight


def is_image(name: str) -> bool:
    """Return whether a file with that name is an image or sound file, by its suffix."""
    return Path(name).suffix.lower() in ENDINGS


def image_file(folder: Path, value: object, name: str, where: str, hint: str = "") -> Path:
    """Return the image file that a row of a table in `folder` names, relative to that folder.

    value: what the row has. name, where: of the value and of the row, for errors. hint: how to fix
    a value that is no path. Raises DataError if there is no such file, or if it is no image file.
    """
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"the value of {name} is missing, or not an image path", where, hint)
    file = folder / value.strip()
    try:
        exists = file.is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        exists = False
    if not exists:
        raise DataError(
            f"no such image file: {str(file)[:200]}",
            where,
            "paths are relative to the folder of the table",
        )
    if not is_image(file.name):
        raise DataError(
            f"an image or sound file must end in {', '.join(ENDINGS)}, but this is {file.name}",
            where,
            remedy_of(file),
        )
    return file


def read_image(path: Path, conversion: Conversion = "blend") -> Pixels:
    """Return the pixels of a file; see `decoded`."""
    return decoded(read_bytes(path, BYTES_LIMIT), str(path), conversion)


def decoded(data: bytes, where: str, conversion: Conversion = "blend") -> Pixels:
    """Return the pixels of an image file (`FORMATS`), or of the spectrogram of a WAV file.

    The EXIF orientation is applied. Of an animation or a file of several pages, the first one is
    returned. Grey and black-and-white images have one channel, all others three. where: name of the
    file for errors. Raises DataError for a file that is not an image, is damaged, has
    floating-point pixels, or has more than 25 million pixels.
    """
    if is_wav(data):
        from headway.data.sound import sound_pixels  # imports torch, which images do not need

        return sound_pixels(data, where)
    with _decoder_errors(where, data):
        return _pixels(_upright(_opened(data, where)), conversion, where)


def size_and_channels(data: bytes, where: str) -> tuple[int, int, int]:
    """Return height, width and channels of the result of `decoded`, from the header alone. Raises
    DataError."""
    if is_wav(data):
        from headway.data.sound import sound_shape

        return sound_shape(data, where)
    with _decoder_errors(where, data):
        image = _opened(data, where)
        # the EXIF orientation; Pillow applies that of TIFF files itself
        is_rotated = image.format != "TIFF" and image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        (x, y), mode = image.size, image.mode
        grey = mode in _GREY and (mode.startswith("I") or "transparency" not in image.info)
        return (x, y, 1 if grey else 3) if is_rotated else (y, x, 1 if grey else 3)


def resized(pixels: Pixels, height: int, width: int, how: str = "bicubic") -> Pixels:
    """Return resized pixels.

    how: the resampling filter: `nearest`, or, with antialiasing, `bilinear`, `bicubic`, `lanczos`,
    `box` or `hamming`.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pillow = _pillow()
    kind = getattr(pillow.Resampling, how.upper())
    grey = pixels.shape[2] == 1
    image = pillow.fromarray(pixels[..., 0] if grey else pixels)
    resized_pixels: Pixels = np.asarray(image.resize((width, height), kind))
    return resized_pixels[..., None] if grey else resized_pixels


def with_channels(pixels: Pixels, channels: int) -> Pixels:
    """Convert pixels to colour (grey repeated 3 times) or grey (0.299 R + 0.587 G + 0.114 B)."""
    if pixels.shape[2] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=2)
    weights = np.array([0.299, 0.587, 0.114])
    grey_pixels: Pixels = np.rint(pixels @ weights).astype(np.uint8)[..., None]
    return grey_pixels


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(
            "reading images needs the package Pillow, which is not installed",
            hint="pip install 'headway[vision]'",
        ) from None
    return Image


class _decoder_errors:
    """A context manager that turns errors of a decoder into DataError and hides its warnings.

    Warnings of Headway are shown after the block, as the filters of the caller decide.
    """

    def __init__(self, where: str, data: bytes) -> None:
        self.where, self.data = where, data
        self.quiet = warnings.catch_warnings(record=True)

    def __enter__(self) -> None:
        self.caught = self.quiet.__enter__()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", HeadwayWarning)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.quiet.__exit__(kind, error, trace)
        for caught in self.caught:
            warnings.warn(caught.message, stacklevel=2)
        if isinstance(error, HeadwayError) or not isinstance(error, Exception):
            return
        reason = str(error).split("\n", 1)[0][:120] or type(error).__name__
        hint = "convert it, copy it again, or remove it"
        expected = "a sound" if Path(self.where).suffix.lower() == ".wav" else "an image"
        if "cannot identify" in str(error):
            reason = f"its content is not {'WAV' if expected == 'a sound' else FORMAT_NAMES}"
            if not self.data:
                reason = "it is empty"
            elif (recognised_kind := recognised(self.data)) is not None:
                reason, hint = f"it is {recognised_kind.name}", recognised_kind.remedy(self.where)
        raise DataError(
            f"the file cannot be read as {expected}: {reason}", self.where, hint
        ) from error


def _opened(data: bytes, where: str) -> Image:
    """Open an image and check its size by its header, without decoding it."""
    image: Image = _pillow().open(io.BytesIO(data), formats=list(FORMATS))
    x, y = image.size
    if x * y > PIXELS_LIMIT or max(x, y) > LONGEST:
        raise DataError(
            f"the image has {x:,} x {y:,} pixels, but at most {PIXELS_LIMIT:,} are allowed, and "
            f"{LONGEST:,} on a side",
            where,
            "make it smaller with an image editor",
        )
    return image


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    upright: Image = ImageOps.exif_transpose(image)
    return upright


def _pixels(image: Image, conversion: Conversion, where: str) -> Pixels:
    if image.mode.startswith("F"):
        raise DataError(
            "the pixels are floating-point numbers, whose range is unknown",
            where,
            "convert the image to 8 bits per channel",
        )
    if image.mode.startswith("I"):  # 16-bit values, stored in 16 or 32 bits
        wide = np.asarray(image).astype(np.int64)
        if conversion != "blend":
            if wide.max() > 255:
                _warn_of_clipping()
            return wide.clip(0, 255).astype(np.uint8)[..., None]
        return np.rint(wide.clip(0, 65_535) / _MIDDLE).astype(np.uint8)[..., None]
    if conversion == "processor":
        image = image.convert("RGB")  # its `info` still has the transparent colour
    transparent = "transparency" in image.info or image.mode in {"RGBA", "LA", "PA", "La", "RGBa"}
    if transparent and conversion != "pillow":
        rgba = image.convert("RGBA")
        white = _pillow().new("RGBA", rgba.size, "white")
        image = _pillow().alpha_composite(white, rgba).convert("RGB")
    grey = image.mode in _GREY
    pixels: Pixels = np.array(image.convert("L" if grey else "RGB"))
    return pixels[..., None] if grey else pixels


@cache
def _warn_of_clipping() -> None:
    """Warn once that the preprocessing of a model clips 16-bit images."""
    warnings.warn(
        "images with 16 bits are clipped at 255, as transformers does for this model; convert "
        "them to 8 bits",
        HeadwayWarning,
        stacklevel=2,
    )


def to_pixels(image: object, where: str, conversion: Conversion = "blend") -> Pixels:
    """Return the pixels of an image in any accepted form.

    image: a path, the bytes of a file, a uint8 array (height x width, or height x width x 1 or 3
    channels), or a Pillow image. where: name of an input without a path, for errors. Raises
    UsageError for any other input, DataError as `decoded`.
    """
    if isinstance(image, str | Path):
        return read_image(Path(image), conversion)
    if isinstance(image, bytes):
        return decoded(image, where, conversion)
    if isinstance(image, np.ndarray):
        pixels = image[..., None] if image.ndim == 2 else image
        if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] in (1, 3):
            return np.ascontiguousarray(pixels)
        shape = " x ".join(map(str, image.shape))
        raise UsageError(
            f"{where}: the array must be uint8 with shape height x width (x 1 or 3 channels), "
            f"but is {image.dtype} with shape {shape or '()'}",
            hint="convert the pixels to bytes from 0 to 255, with the channels last",
        )
    pillow = _pillow()
    if isinstance(image, pillow.Image):
        with _decoder_errors(where, b""):
            return _pixels(_upright(image), conversion, where)
    raise UsageError(
        f"{where}: {type(image).__name__} is not an image",
        hint="give a path, the bytes of a file, a uint8 array or a Pillow image",
    )
