"""Heat maps for a terminal."""

import unicodedata
from collections.abc import Sequence

SHADES = " ·░▒▓█"


def heat_map(
    rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]
) -> str:
    """Return a matrix of weights from 0 to 1 as shaded cells, readable without colour.

    Columns are numbered, and their names are listed below. The five shades after blank begin at
    0.1, 0.3, 0.5, 0.7 and 0.9.
    """
    if len(rows) != len(weights) or any(len(line) != len(columns) for line in weights):
        raise ValueError(f"{len(rows)=} x {len(columns)=} do not fit the weights")
    margin = max((_width(row) for row in rows), default=0)
    lines = [" " * margin + " " + "".join(f"{i + 1:>3}" for i in range(len(columns)))]
    for row, values in zip(rows, weights, strict=True):
        cells = "".join(" " + _shade(value) * 2 for value in values)
        lines.append(" " * (margin - _width(row)) + row + " " + cells)
    names = "  ".join(f"{i + 1} {name}" for i, name in enumerate(columns))
    key = "  ".join(
        f"{shade * 2} {edge:.1f}" for shade, edge in zip(SHADES[1:], _EDGES, strict=True)
    )
    return "\n".join([*lines, "", names, f"weights from  {key}"])


_EDGES = (0.1, 0.3, 0.5, 0.7, 0.9)


def _shade(value: float) -> str:
    return SHADES[sum(value >= edge for edge in _EDGES)]


def _width(text: str) -> int:
    """Return the number of terminal cells: wide characters take two, combining characters none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    combining = sum(unicodedata.combining(c) > 0 or c in "\u200d\ufe0f" for c in text)
    return len(text) + wide - combining
