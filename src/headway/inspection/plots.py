"""Plots as .svg, .png or .pdf files, drawn with matplotlib.

The same input gives the same bytes. Colours are those of Okabe and Ito, which are distinguishable
with colour blindness; markers differ too, so that a print in grey is readable.
"""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.base.errors import UsageError
from headway.base.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Series = Mapping[str, Sequence[tuple[float, float]]]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
MARKERS = "osD^vPX*"
FEW = 40  # a line with more points has no markers
NUMBERED = 30  # a confusion matrix with more classes has no counts in its cells
LETTERS = 10  # letters of a title per inch of its figure
MARGIN = 0.12  # fraction of a scatter plot around its points
BESIDE = 4  # with more lines, the legend is beside the plot
AROUND = ((4, 4), (4, -11), (-4, 4), (-4, -11), (4, 14), (4, -21), (-4, 14), (-4, -21))
Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""
BAD = {"Cc", "Cs", "Cn"}  # control characters, lone surrogates and unassigned code points
ROUNDING = 1e-6
HATCHES = ("", "//", "..")
ENDINGS = (".svg", ".png", ".pdf")
STYLE: Any = {
    "svg.hashsalt": "headway",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a word may contain dollar signs
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "figure.dpi": 120,
}


@dataclass(frozen=True)
class Panel:
    """One heat map: weights[row][column], each between 0 and 1."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]


def line_plot(
    path: Path,
    series: Series,
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Draw one line per name through its (x, y) points."""
    _check_numbers({name: [n for pair in line for n in pair] for name, line in series.items()})
    for axis, is_log in ((0, log_x), (1, log_y)):
        for name, line in series.items():
            if is_log and (low := [pair for pair in line if pair[axis] <= 0]):
                raise ValueError(
                    f"{name!r} has the point {low[0]}, but a logarithmic axis needs values above 0"
                )
    with page(path, (7.2, 4.2)) as figure:
        axes = figure.subplots()
        for i, (name, line) in enumerate(series.items()):
            marker = MARKERS[i % len(MARKERS)] if len(line) <= FEW else ""
            xs, ys = [x for x, _ in line], [y for _, y in line]
            axes.plot(
                xs, ys, label=drawable(name), color=COLOURS[i % len(COLOURS)], marker=marker, ms=5
            )
        if log_x:
            axes.set_xscale("log")
            _name_powers(axes.xaxis)
        if log_y:
            axes.set_yscale("log")
            _name_powers(axes.yaxis)
        _name(axes, title, x_label, y_label)
        _legend(axes, len(series))


def _name_powers(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as 0.01 or 1e-05: its formulas would not be parsed."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


def grouped_bars(
    path: Path,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> None:
    """Draw for each group one bar per name, side by side; None leaves a gap."""
    for name, values in series.items():
        if len(values) != len(groups):
            raise ValueError(f"{name!r} has {len(values)} values for {len(groups)} groups")
    _check_numbers({n: [v for v in values if v is not None] for n, values in series.items()})
    with page(path, (max(6.0, 0.3 * len(series) * len(groups) + 2.5), 4.2)) as figure:
        axes = figure.subplots()
        width = 0.8 / len(series)
        for i, (name, values) in enumerate(series.items()):
            positions = [g - 0.4 + (i + 0.5) * width for g, v in enumerate(values) if v is not None]
            heights = [v for v in values if v is not None]
            colour = COLOURS[i % len(COLOURS)]
            hatch = HATCHES[i // len(COLOURS) % len(HATCHES)]
            axes.bar(
                positions, heights, width * 0.92, label=drawable(name), color=colour, hatch=hatch
            )
        axes.set_xticks(range(len(groups)), [drawable(group) for group in groups])
        axes.grid(visible=False, axis="x")
        _name(axes, title, x_label, y_label)
        _legend(axes, len(series), beside=True)


def plot_attention_maps(path: Path, panels: Sequence[Panel], *, title: str = "") -> None:
    """Draw heat maps, three per row: rows are queries, columns keys, with one scale from 0 to 1."""
    if not 1 <= len(panels) <= 12:
        raise ValueError(f"{len(panels)=} must be between 1 and 12")
    for panel in panels:
        sizes = {len(row) for row in panel.weights}
        if len(panel.weights) != len(panel.rows) or sizes - {len(panel.columns)}:
            raise ValueError(
                f"{panel.title!r}: weights must be {len(panel.rows)} x {len(panel.columns)}"
            )
    _check_numbers({p.title: [w for row in p.weights for w in row] for p in panels})
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    columns = max(len(panel.columns) for panel in panels)
    rows = max(len(panel.rows) for panel in panels)
    size = (across * (0.3 * columns + 1.9) + 0.8, down * (0.3 * rows + 1.9) + 0.4)
    with page(path, size) as figure:
        grid = figure.subplots(down, across, squeeze=False)
        shown: list[Axes] = list(grid.flat)
        for axes, panel in zip(shown, panels, strict=False):
            image = axes.imshow(panel.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_title(drawable(panel.title), pad=12, loc="left", fontsize=11)
            axes.xaxis.tick_top()
            columns_named = [drawable(column) for column in panel.columns]
            axes.set_xticks(range(len(columns_named)), columns_named, rotation=60, ha="left")
            axes.set_yticks(range(len(panel.rows)), [drawable(row) for row in panel.rows])
            axes.tick_params(length=0)
            axes.grid(visible=False)
        for axes in shown[len(panels) :]:
            axes.set_axis_off()
        beyond = _beyond([w for panel in panels for row in panel.weights for w in row])
        figure.colorbar(image, ax=shown, shrink=0.6, label="weight", extend=beyond)
        if title:
            lines = textwrap.wrap(drawable(title), width=int(LETTERS * size[0]))
            figure.suptitle("\n".join(lines), x=0.01, ha="left")


def confusion_matrix(
    path: Path, counts: Sequence[Sequence[int]], labels: Sequence[str], *, title: str
) -> None:
    """Draw a confusion matrix: rows are true classes, columns predicted ones. Colours are fractions
    of a row; numbers are counts, left out if there are more than 30 classes."""
    if not counts or any(len(row) != len(labels) for row in (counts, *counts)):
        raise ValueError(f"counts must be {len(labels)} x {len(labels)}, and at least 1 x 1")
    shares = [[count / max(1, sum(row)) for count in row] for row in counts]
    side = min(0.42 * len(labels) + 2.2, 24.0)
    with page(path, (side + 0.6, side)) as figure:
        axes = figure.subplots()
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        names = [drawable(label) for label in labels]
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        _name(axes, title, "predicted", "true")
        for t, row in enumerate(counts if len(labels) <= NUMBERED else ()):
            for f, count in enumerate(row):
                if count:
                    colour = "white" if shares[t][f] > 0.5 else "black"
                    axes.text(f, t, str(count), ha="center", va="center", color=colour, fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.6, label="fraction of the true class")


def scatter(
    path: Path,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    *,
    title: str,
    groups: Sequence[str] | None = None,
) -> None:
    """Draw points with labels; the points of a group have one colour. Labels are moved so that they
    do not overlap, and an empty one is not drawn."""
    if len(points) != len(labels) or (groups is not None and len(groups) != len(points)):
        raise ValueError(f"{len(points)=}, {len(labels)=} and the number of groups must be equal")
    _check_numbers({label: list(point) for label, point in zip(labels, points, strict=True)})
    _check_numbers({"points": [number for point in points for number in point]})
    with page(path, (7.2, 5.6)) as figure:
        axes = figure.subplots()
        point_groups = list(groups) if groups is not None else [""] * len(points)
        kinds = list(dict.fromkeys(point_groups))
        for i, kind in enumerate(kinds):
            chosen = [
                point for point, group in zip(points, point_groups, strict=True) if group == kind
            ]
            xs, ys = [x for x, _ in chosen], [y for _, y in chosen]
            # beyond eight groups, colours repeat with other markers
            marker, colour = MARKERS[(i + i // 8) % len(MARKERS)], COLOURS[i % len(COLOURS)]
            axes.scatter(xs, ys, label=drawable(kind), color=colour, marker=marker, s=28)
        _name(axes, title, "first principal component", "second principal component")
        axes.margins(MARGIN)
        for point, label, (right, up) in zip(
            points, labels, _label_offsets(points, labels), strict=True
        ):
            if not label:
                continue
            axes.annotate(
                drawable(label),
                point,
                xytext=(right, up),
                textcoords="offset points",
                ha="left" if right > 0 else "right",
                fontsize=9,
            )
        if groups is not None:
            _legend(axes, len(kinds))


def _label_offsets(
    points: Sequence[tuple[float, float]], labels: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the offset (right, up) of each label from its point, in typographic points.

    From left to right, a label gets the first of eight offsets at which it overlaps no other label,
    point or axis number, or the one with the smallest overlap.
    """
    left, low = min(x for x, _ in points), min(y for _, y in points)
    # a drawing of about 380 x 300 typographic points
    across = 380 / ((max(x for x, _ in points) - left) or 1.0)
    upwards = 300 / ((max(y for _, y in points) - low) or 1.0)
    spots = [((x - left) * across, (y - low) * upwards) for x, y in points]
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in spots]
    taken.append((-1e4, -1e4, -MARGIN * 380, 1e4))  # the axis at the left
    offsets = [(4, 4)] * len(points)
    for i in sorted((i for i, label in enumerate(labels) if label), key=lambda i: spots[i]):
        x, y = spots[i]
        length = 5 * len(labels[i])

        def box(offset: tuple[int, int], x: float = x, y: float = y, length: int = length) -> Box:
            right, up = offset
            start = x + right if right > 0 else x + right - length
            return (start, y + up, start + length, y + up + 9)

        obstacles = [rectangle for j, rectangle in enumerate(taken) if j != i]
        offsets[i] = min(
            AROUND,
            key=lambda offset: sum(_covered(box(offset), obstacle) for obstacle in obstacles),
        )
        taken.append(box(offsets[i]))
    return offsets


def _covered(a: Box, b: Box) -> float:
    """Return the area of the intersection of two rectangles."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)


def _name(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(drawable(title), loc="left", fontsize=12, wrap=True)
    axes.set_xlabel(drawable(x_label))
    axes.set_ylabel(drawable(y_label))


def _legend(axes: Axes, count: int, *, beside: bool = False) -> None:
    """Draw the names of all series, beside the plot if there are many."""
    handles, labels = axes.get_legend_handles_labels()
    if count > BESIDE or (beside and count > 1):
        axes.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5))
    else:
        axes.legend(handles, labels, loc="best")


def drawable(text: str) -> str:
    """Return a string as text that all formats can contain: control characters and lone surrogates
    are replaced.

    matplotlib leaves names with a leading underscore out of legends; a word joiner, which has no
    width, is put before it.
    """
    safe = "".join(
        " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in BAD else c
        for c in text
    )
    return "\N{WORD JOINER}" + safe if safe.startswith("_") else safe


def _beyond(weights: Sequence[float]) -> Literal["neither", "min", "max", "both"]:
    """Return the ends of the colour scale that weights exceed; the colour bar has arrows there."""
    low, high = min(weights) < -ROUNDING, max(weights) > 1 + ROUNDING
    return "both" if low and high else "min" if low else "max" if high else "neither"


def _check_numbers(named: Mapping[str, Sequence[float]]) -> None:
    if not named:
        raise ValueError("there is nothing to draw: no series or panel")
    for name, values in named.items():
        if not len(values):
            raise ValueError(f"{name!r} has nothing to draw: it has no values")
        for value in values:
            if not math.isfinite(value):
                raise ValueError(
                    f"{name!r} has the value {value}; only finite numbers can be drawn"
                )


def check_plot(path: Path) -> None:
    """UsageError if the suffix is not that of a plot, or if matplotlib is missing."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"the file name {path} must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("plots need matplotlib", hint="pip install 'headway[plot]'") from None


@contextmanager
def page(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """Yield a figure that is written to `path` if the `with` block ends without an error."""
    check_plot(path)
    from matplotlib import style
    from matplotlib.figure import Figure

    kind = path.suffix.lower()
    # "default" first: personal settings must not change the plot
    with style.context(["default", STYLE]), warnings.catch_warnings():
        # the font may lack a script; an .svg uses the fonts of the reader
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind[1:], metadata=metadata[kind])
    write_file(path, drawn.getvalue())
