"""The drawings of the tour, made by code: `python docs/drawings` writes them to docs/pictures/tour.

They are part of the repository, so that pages show them everywhere; a test makes them again and
compares the bytes. `inline` puts one into a page of the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from drawings import attention, blocks, claims, systems
from drawings.kit import Sheet

FOLDER = Path(__file__).resolve().parents[1] / "pictures" / "tour"
DRAWINGS: dict[str, Callable[[], Sheet]] = {
    **attention.DRAWINGS,
    **blocks.DRAWINGS,
    **systems.DRAWINGS,
    **claims.DRAWINGS,
}
"""Name of a file without .svg -> the function that draws it."""


def drawn(name: str) -> str:
    """The text of the SVG file of a drawing."""
    return DRAWINGS[name]().svg()


def write(folder: Path = FOLDER) -> None:
    """Write every drawing into the folder, and remove those that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.svg"):
        if path.stem not in DRAWINGS:
            path.unlink()
    for name in DRAWINGS:
        (folder / f"{name}.svg").write_text(drawn(name), encoding="utf-8")


def inline(svg: str, alternative: str) -> str:
    """A drawing as HTML, so that it follows the switch between light and dark of the site.

    alternative: its description for readers who do not see it.
    """
    label = escape(alternative)
    svg = re.sub(r"<title>.*?</title>\n", "", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'<span class="drawing-box">{svg}</span>'
