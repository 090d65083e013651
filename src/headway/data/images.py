"""Pictures from files that anybody may have made: opened with care, made the size a model reads.

A sound is a picture too, its spectrogram (`sound.sound_pixels`): whatever looks at pictures hears.
Pillow does the decoding. It is asked for three formats only, told nothing of where bytes come from,
and never decodes what the header says is larger than anybody needs.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headway.data.sound import is_sound, sound_pixels, sound_shape
from headway.errors import DataError, HeadwayError, UsageError
from headway.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
"""Height x width x channels, 1 (grey) or 3 (red, green, blue), from 0 to 255."""

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".wav")
FORMATS = ("PNG", "JPEG", "WEBP")
BYTES_LIMIT = 64 * 2**20
PIXELS_LIMIT = 25_000_000
LONGEST = 1 << 16  # pixels along a side
_GREY = {"1", "L", "I;16", "I;16B", "I;16L", "I;16N", "I"}
_MIDDLE = 257  # 65,535 / 255: sixteen bits to eight


def is_image(name: str) -> bool:
    """Whether a file of that name is one of ours, by its ending."""
    return Path(name).suffix.lower() in ENDINGS


def read_image(path: Path) -> Pixels:
    """The pixels of a file; see `decoded`."""
    return decoded(read_bytes(path, BYTES_LIMIT), str(path))


def decoded(data: bytes, where: str, *, at_least: int | None = None) -> Pixels:
    """The pixels of a PNG, JPEG or WebP file, upright as its EXIF tells, of moving ones the first
    picture; or of a WAV file's spectrogram.

    Grey and black-and-white pictures have one channel, all others three; sixteen bits become eight;
    what is transparent lies on white. at_least: the shorter side that is needed, where a JPEG that
    is much larger may be decoded at a half, a quarter or an eighth. DataError names `where` and the
    reason for what is no picture, is damaged, or has more than 25 million pixels.
    """
    if is_sound(data):
        return sound_pixels(data, where)
    with _watched(where):
        image = _opened(data, where)
        if at_least is not None:
            shorter = min(image.size)
            image.draft(None, tuple(-(-side * at_least // shorter) for side in image.size))  # type: ignore[arg-type]
        return _pixels(_upright(image))


def size_and_channels(data: bytes, where: str) -> tuple[int, int, int]:
    """Height, width and channels that `decoded` will give, from the header alone. DataError."""
    if is_sound(data):
        return sound_shape(data, where)
    with _watched(where):
        image = _opened(data, where)
        turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)  # of EXIF: it lies on its side
        (x, y), mode = image.size, image.mode
        grey = mode in _GREY and (mode.startswith("I") or "transparency" not in image.info)
        return (x, y, 1 if grey else 3) if turned else (y, x, 1 if grey else 3)


def resized(pixels: Pixels, height: int, width: int, how: str = "bicubic") -> Pixels:
    """Made larger or smaller: `bilinear`, `bicubic`, `lanczos` (each over all pixels that fall
    together, so that fine lines do not flicker) or `nearest`."""
    if pixels.shape[:2] == (height, width):
        return pixels
    pillow = _pillow()
    kind = getattr(pillow.Resampling, how.upper())
    grey = pixels.shape[2] == 1
    image = pillow.fromarray(pixels[..., 0] if grey else pixels)
    found: Pixels = np.asarray(image.resize((width, height), kind))
    return found[..., None] if grey else found


def with_channels(pixels: Pixels, channels: int) -> Pixels:
    """In colour (a grey picture three times) or in grey (0.299 R + 0.587 G + 0.114 B)."""
    if pixels.shape[2] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=2)
    weights = np.array([0.299, 0.587, 0.114])
    found: Pixels = np.rint(pixels @ weights).astype(np.uint8)[..., None]
    return found


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError("pictures need Pillow", hint="pip install 'headway[vision]'") from None
    return Image


class _watched:
    """Whatever a decoder raises is the file's fault, and its warnings are nobody's business."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.quiet = warnings.catch_warnings()

    def __enter__(self) -> None:
        self.quiet.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.quiet.__exit__(kind, error, trace)
        if isinstance(error, HeadwayError) or not isinstance(error, Exception):
            return
        why = str(error).split("\n", 1)[0][:120] or type(error).__name__
        if "cannot identify" in why:
            why = f"it is none of {', '.join(FORMATS)}"
        raise DataError(f"no picture that can be read: {why}", self.where) from error


def _opened(data: bytes, where: str) -> Image:
    """The header has been read, and the picture is of a size that may be decoded."""
    image: Image = _pillow().open(io.BytesIO(data), formats=FORMATS)
    x, y = image.size
    if x * y > PIXELS_LIMIT or max(x, y) > LONGEST:
        raise DataError(
            f"{x:,} x {y:,} pixels, and {PIXELS_LIMIT:,} are read at most",
            where,
            "make it smaller with the program that made it",
        )
    return image


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    upright: Image = ImageOps.exif_transpose(image)
    return upright


def _pixels(image: Image) -> Pixels:
    if image.mode.startswith("I"):  # sixteen bits, in 16 or 32
        wide = np.asarray(image).astype(np.int64).clip(0, 65_535)
        return np.rint(wide / _MIDDLE).astype(np.uint8)[..., None]
    if "transparency" in image.info or image.mode in {"RGBA", "LA", "PA", "La", "RGBa"}:
        clear = image.convert("RGBA")
        white = _pillow().new("RGBA", clear.size, "white")
        image = _pillow().alpha_composite(white, clear).convert("RGB")
    grey = image.mode in _GREY
    found: Pixels = np.array(image.convert("L" if grey else "RGB"))
    return found[..., None] if grey else found


def as_pixels(picture: object, where: str) -> Pixels:
    """The pixels of whatever a person holds: a path, the bytes of a file, an array of bytes (height
    x width, or with 1 or 3 channels), or a picture of Pillow's. `where` names what has no name.

    UsageError for anything else, DataError as `decoded`.
    """
    if isinstance(picture, str | Path):
        return read_image(Path(picture))
    if isinstance(picture, bytes):
        return decoded(picture, where)
    if isinstance(picture, np.ndarray):
        pixels = picture[..., None] if picture.ndim == 2 else picture
        if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] in (1, 3):
            return np.ascontiguousarray(pixels)
        shape = " x ".join(map(str, picture.shape))
        raise UsageError(
            f"{where}: {shape} of {picture.dtype}", hint="uint8, height x width (x 1 or 3)"
        )
    pillow = _pillow()
    if isinstance(picture, pillow.Image):
        with _watched(where):
            return _pixels(_upright(picture))
    raise UsageError(
        f"{where}: {type(picture).__name__} is no picture", hint="a path, bytes, an array of uint8"
    )
