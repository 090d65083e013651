"""Small pictures as files, for tests."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def pixels_of(y: int, x: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Different everywhere."""
    return np.random.default_rng(seed).integers(0, 256, (y, x, channels), dtype=np.uint8)


def png(pixels: np.ndarray, **options: object) -> bytes:
    """The bytes of a PNG file."""
    file = io.BytesIO()
    grey = pixels.shape[2] == 1
    Image.fromarray(pixels[..., 0] if grey else pixels).save(file, "PNG", **options)
    return file.getvalue()


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """The bytes of a file that Pillow writes."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


SHADES = {"dark": 40, "light": 200}


def write_shades(folder: Path, count: int = 6, size: tuple[int, int] = (8, 8)) -> Path:
    """FOLDER/CLASS/N.png: two classes that any model can tell."""
    for name, shade in SHADES.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            noise = np.random.default_rng([shade, i]).integers(-30, 31, (*size, 3))
            (folder / name / f"{i}.png").write_bytes(png((shade + noise).astype(np.uint8)))
    return folder
