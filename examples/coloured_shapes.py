"""Small images of two coloured shapes with captions, as data of `headway train caption`.

    python examples/coloured_shapes.py shapes        writes shapes/captions.tsv and the images

Every caption says what is in its image and nothing else, for example "a red circle above a blue
square". A small captioner learns them in a minute, and its cross-attention can be checked by eye.
"""

import random
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, CELL, COUNT = 24, 12, 1600
COLOURS = {
    "red": (200, 40, 40),
    "green": (40, 150, 60),
    "blue": (40, 80, 200),
    "yellow": (230, 200, 40),
}
SHAPES = ("square", "circle", "triangle")


def inside(shape: str) -> np.ndarray:
    """The pixels of a cell that a shape covers, as a boolean array CELL x CELL."""
    y, x = np.mgrid[:CELL, :CELL] - (CELL - 1) / 2
    if shape == "square":
        return np.maximum(abs(x), abs(y)) <= 4
    if shape == "circle":
        return x**2 + y**2 <= 4.7**2
    return (abs(x) <= (y + 4.5) / 2) & (y <= 4)


def draw(first: tuple[str, str], second: tuple[str, str], is_above: bool) -> np.ndarray:
    """The image of two shapes, each (colour, shape), on white: one above or left of the other."""
    pixels = np.full((SIDE, SIDE, 3), 245, dtype=np.uint8)
    middle = CELL // 2
    corners = [(0, middle), (CELL, middle)] if is_above else [(middle, 0), (middle, CELL)]
    for (colour, shape), (top, left) in zip((first, second), corners, strict=True):
        pixels[top : top + CELL, left : left + CELL][inside(shape)] = COLOURS[colour]
    return pixels


def write(folder: Path, count: int = COUNT) -> None:
    """Write `count` images and the table of their captions into a new folder."""
    choices = random.Random(0)
    if folder.exists():
        sys.exit(f"{folder} exists already; name a new folder")
    folder.mkdir(parents=True)
    rows = ["image\ten"]
    for number in range(count):
        first, second = ((choices.choice([*COLOURS]), choices.choice(SHAPES)) for _ in "12")
        is_above = choices.random() < 0.5
        Image.fromarray(draw(first, second, is_above)).save(folder / f"{number}.png")
        relation = "above" if is_above else "left of"
        rows.append(f"{number}.png\ta {' '.join(first)} {relation} a {' '.join(second)}")
    (folder / "captions.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "shapes"))
