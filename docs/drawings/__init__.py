"""Drawings made by code: `python docs/drawings` writes those of the tour to docs/pictures/tour, and
the charts of docs/results.md and docs/speed.md to docs/pictures/charts.

They are part of the repository, so that pages show them everywhere; a test makes them again and
compares the bytes. `inline` puts one into a page of the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from drawings import attention, blocks, charts, claims, systems
from drawings.kit import Sheet

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
DRAWINGS: dict[str, dict[str, Callable[[], Sheet]]] = {
    "tour": {
        **attention.DRAWINGS,
        **blocks.DRAWINGS,
        **systems.DRAWINGS,
        **claims.DRAWINGS,
    },
    "charts": charts.CHARTS,
}
"""Folder below docs/pictures -> name of a file without .svg -> the function that draws it."""
FOLDERS = {PICTURES / name for name in DRAWINGS}


def drawn(folder: str, name: str) -> str:
    """The text of the SVG file of a drawing."""
    return DRAWINGS[folder][name]().svg()


def write() -> None:
    """Write every drawing into its folder, and remove those that no longer exist."""
    for folder, names in DRAWINGS.items():
        (PICTURES / folder).mkdir(parents=True, exist_ok=True)
        for path in (PICTURES / folder).glob("*.svg"):
            if path.stem not in names:
                path.unlink()
        for name in names:
            text = drawn(folder, name)
            (PICTURES / folder / f"{name}.svg").write_text(text, encoding="utf-8")


def inline(svg: str, alternative: str) -> str:
    """A drawing as HTML, so that it follows the switch between light and dark of the site.

    alternative: its description for readers who do not see it.
    """
    label = escape(alternative)
    svg = re.sub(r"<title>.*?</title>\n", "", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'<span class="drawing-box">{svg}</span>'
