"""A sheet on which the drawings of the tour are drawn, as SVG with text as text.

Lengths are pixels, from the top left. A sheet is at most 400 wide, so that it can be read on a
phone without scrolling. Colours have names; each has a light and a dark form, which follow the
reader's system, and on the site its switch between light and dark.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from html import escape

WIDTH = 400
COLOURS = {
    "ink": ("#1d2330", "#e9e7e2"),
    "soft": ("#565d6d", "#a7adba"),
    "line": ("#8a8f9c", "#7d8492"),
    "accent": ("#b4400d", "#ffa45c"),
    "plain": ("#ffffff", "#20252e"),
    "attention": ("#fbdcc0", "#6b3d17"),
    "feedforward": ("#cfe6f5", "#1d4660"),
    "norm": ("#f4efbf", "#4d4a1c"),
    "embedding": ("#f8d5da", "#60303a"),
    "output": ("#d8ecd2", "#2b4d2a"),
    "state": ("#e4dcf2", "#433660"),
    "query": ("#b4400d", "#ffa45c"),
    "key": ("#2c5985", "#8db8e3"),
    "value": ("#33691e", "#a2d690"),
    "more": ("#2c5985", "#8db8e3"),
    "less": ("#b35806", "#ffb66e"),
}
"""Name -> its form on light and on dark paper. more and less are those of positive and negative
values; query, key and value those of the three in drawings, equations and code of the tour; ink,
soft, line and accent those of text and lines; the others fill boxes."""
BOXES = {"query": "attention", "key": "feedforward", "value": "output"}
"""The fills of boxes of queries, keys and values, whose outlines have their colours."""
STROKES = ("ink", "soft", "accent", "more", "less", *BOXES)
"""The colours that lines can have."""
LEVELS = 10
"""The number of different strengths of a cell of a heat map."""


def _variables(form: int) -> str:
    return ";".join(f"--{name}:{colours[form]}" for name, colours in COLOURS.items())


STYLE = "".join(
    (
        f".drawing{{{_variables(0)}}}",
        f"@media(prefers-color-scheme:dark){{.drawing{{{_variables(1)}}}}}",
        f"body[data-theme=light] .drawing{{{_variables(0)}}}",
        f"body[data-theme=dark] .drawing{{{_variables(1)}}}",
        ".drawing text{font:14px system-ui,'Segoe UI',Roboto,'Noto Sans',sans-serif;",
        "fill:var(--ink);text-anchor:middle}",
        ".drawing .small{font-size:12px}.drawing .strong{font-weight:650}",
        ".drawing .mono{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:13px}",
        ".drawing .start{text-anchor:start}.drawing .end{text-anchor:end}",
        *(f".drawing .{name}{{fill:var(--{name})}}" for name in COLOURS),
        ".drawing .head{fill:var(--line)}",
        *(f".drawing .head.{name}{{fill:var(--{name})}}" for name in ("accent", *BOXES)),
        ".drawing .box{stroke:var(--line)}.drawing .frame{fill:none;stroke-dasharray:5 4}",
        *(
            f".drawing .box.{name}{{fill:var(--{fill});stroke:var(--{name});stroke-width:1.6}}"
            for name, fill in BOXES.items()
        ),
        ".drawing .path{fill:none;stroke:var(--line);stroke-width:1.5}",
        *(f".drawing .path.{name}{{stroke:var(--{name})}}" for name in STROKES),
    )
)
Point = tuple[float, float]


def short(number: float) -> str:
    """A coordinate with at most one decimal, so that every machine writes the same file."""
    text = f"{number:.1f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Sheet:
    """A drawing in the making. title: one line that names it."""

    def __init__(self, height: float, title: str, width: float = WIDTH) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def svg(self) -> str:
        """The finished drawing."""
        size = f"{short(self.width)} {short(self.height)}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {size}" '
            f'width="{short(self.width)}" height="{short(self.height)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Text whose middle is at x, on the base line y; kind: classes such as "small soft"."""
        name = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{short(x)}" y="{short(y)}"{name}>{escape(words)}</text>')

    def box(
        self, x: float, y: float, wide: float, high: float, words: str = "", kind: str = "plain"
    ) -> None:
        """A box with its top left at (x, y); lines of its text are separated by newlines."""
        self.parts.append(
            f'<rect class="box {kind}" x="{short(x)}" y="{short(y)}" width="{short(wide)}" '
            f'height="{short(high)}" rx="5"/>'
        )
        lines = words.split("\n") if words else []
        for number, line in enumerate(lines):
            base = y + high / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            self.text(x + wide / 2, base, line)

    def frame(self, x: float, y: float, wide: float, high: float) -> None:
        """A dashed outline around what belongs together."""
        self.parts.append(
            f'<rect class="box frame" x="{short(x)}" y="{short(y)}" width="{short(wide)}" '
            f'height="{short(high)}" rx="8"/>'
        )

    def line(self, *points: Point, kind: str = "") -> None:
        """A line through points, without a head."""
        path = " ".join(f"{short(x)},{short(y)}" for x, y in points)
        name = f"path {kind}".strip()
        self.parts.append(f'<polyline class="{name}" points="{path}"/>')

    def arrow(self, *points: Point, kind: str = "") -> None:
        """A line through points with a head at the last one."""
        (x0, y0), (x1, y1) = points[-2:]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        self.line(*points[:-1], (x1 - 6 * dx, y1 - 6 * dy), kind=kind)
        corners = (
            (x1, y1),
            (x1 - 8 * dx - 4 * dy, y1 - 8 * dy + 4 * dx),
            (x1 - 8 * dx + 4 * dy, y1 - 8 * dy - 4 * dx),
        )
        path = " ".join(f"{short(x)},{short(y)}" for x, y in corners)
        name = f"head {kind}".strip()
        self.parts.append(f'<polygon class="{name}" points="{path}"/>')

    def arc(self, start: float, end: float, y: float, depth: float, kind: str = "") -> None:
        """An arrow from (start, y) to (end, y) that hangs `depth` below them."""
        middle, low = short((start + end) / 2), short(y + 2 * depth)
        curve = f"M{short(start)} {short(y)}Q{middle} {low} {short(end)} {short(y + 6)}"
        name = f"path {kind}".strip()
        self.parts.append(f'<path class="{name}" d="{curve}"/>')
        self.arrow((end, y + 7), (end, y), kind=kind)

    def plus(self, x: float, y: float) -> None:
        """The sign of a sum, centred at (x, y)."""
        self.parts.append(f'<circle class="box plain" cx="{short(x)}" cy="{short(y)}" r="9"/>')
        self.line((x - 5, y), (x + 5, y), kind="ink")
        self.line((x, y - 5), (x, y + 5), kind="ink")

    def bar(self, x: float, y: float, wide: float, high: float, kind: str = "more") -> None:
        """A bar of a chart."""
        self.parts.append(
            f'<rect class="{kind}" x="{short(x)}" y="{short(y)}" width="{short(wide)}" '
            f'height="{short(high)}"/>'
        )

    def heat(
        self, x: float, y: float, values: Sequence[Sequence[float]], wide: float, high: float
    ) -> None:
        """A heat map of values from -1 to 1, with its outline; cells are wide x high.

        Cells of equal strength that are below each other become one rectangle, and all of one
        strength one path, so that large maps stay small files.
        """
        paths: defaultdict[int, list[str]] = defaultdict(list)
        rows, columns = len(values), len(values[0])
        for column in range(columns):
            start = 0
            levels = [round(LEVELS * row[column]) for row in values]
            for end in range(1, rows + 1):
                if end < rows and levels[end] == levels[start]:
                    continue
                if levels[start]:
                    corner = f"M{short(x + column * wide)} {short(y + start * high)}"
                    tall = short((end - start) * high)
                    paths[levels[start]].append(f"{corner}h{short(wide)}v{tall}h-{short(wide)}")
                start = end
        for level, path in sorted(paths.items()):
            kind, strength = ("more" if level > 0 else "less"), abs(level) / LEVELS
            self.parts.append(
                f'<path class="{kind}" fill-opacity="{short(strength)}" d="{"".join(path)}"/>'
            )
        self.parts.append(
            f'<rect class="path" x="{short(x)}" y="{short(y)}" width="{short(columns * wide)}" '
            f'height="{short(rows * high)}"/>'
        )
