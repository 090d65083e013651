"""The film of a run as an animated image: .webp, .gif or .png."""

from __future__ import annotations

import base64
import gzip
import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import UsageError
from headway.base.files import write_file
from headway.inspection.first_head import MEAN
from headway.inspection.page.byte_weights import to_weights
from headway.inspection.plots import STYLE, drawable
from headway.runs.attention_over_time import Film, Glimpse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

Picture = npt.NDArray[np.uint8]
SAVED: dict[str, dict[str, Any]] = {
    ".webp": {"quality": 70, "method": 4, "minimize_size": True},
    ".gif": {"optimize": True},
    ".png": {"optimize": True},
}
"""Suffix of a file -> how Pillow saves it."""
SIZE = (9.0, 4.5)  # inches
DPI = 100
PAPER, INK, SOFT = "#fbfaf7", "#1d2330", "#565d6d"
LINE, ACCENT, PIN = "#e2dfd6", "#2c5985", "#b4400d"
FIRST, BETWEEN, LAST = 900, 170, 2800  # milliseconds
LABELLED = 48  # a map with more rows or columns has no tokens beside it
WIDTH, LINES = 44, 3  # characters and lines of a text
WHITESPACE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥"})


def check_picture(path: Path) -> None:
    """UsageError if the suffix is not that of an animated image, or if a package is missing."""
    if path.suffix.lower() not in SAVED:
        raise UsageError(
            f"the file name {path} must end in .html, {', '.join(SAVED)}",
            hint="headway report RUN -o film.webp",
        )
    try:
        import matplotlib  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        raise UsageError("films need matplotlib", hint="pip install 'headway[plot]'") from None


def write_picture(path: Path, film: Film, title: str) -> int:
    """Write a film as an animated image and return its size in bytes.

    UsageError for a film of fewer than two glimpses, and as `check_picture`.
    """
    check_picture(path)
    if len(film.glimpses) < 2:
        raise UsageError(
            f"{title} has {len(film.glimpses)} glimpses, but a film needs two",
            hint="a run films its first held-out example; runs without one have no film",
        )
    frames = [_image(pixels) for pixels in _drawn(film, title)]
    durations = [FIRST, *[BETWEEN] * (len(frames) - 2), LAST]
    suffix = path.suffix.lower()
    saved = io.BytesIO()
    frames[0].save(
        saved,
        format=suffix[1:],
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
        **SAVED[suffix],
    )
    write_file(path, saved.getvalue())
    return len(saved.getvalue())


def _image(pixels: Picture) -> Image:
    from PIL import Image

    return Image.fromarray(pixels)


@contextmanager
def _figure() -> Iterator[Figure]:
    """Yield an empty figure in the style of the page."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours: Any = {
        "text.color": INK,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "axes.edgecolor": LINE,
    }
    with style.context(["default", STYLE, colours]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=SIZE, dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        yield figure


def _drawn(film: Film, title: str) -> Iterator[Picture]:
    """Draw each glimpse: attention at the left; the texts and the loss at the right."""
    with _figure() as figure:
        first = film.glimpses[0]
        head = _Head.of(film.glimpses[-1])
        attention = None if head is None else _AttentionPanel(figure, film, head)
        left = 0.07 if head is None else 0.55
        figure.text(0.02, 0.93, drawable(title), fontsize=13, weight="bold")
        moment = figure.text(
            0.98, 0.93, "", fontsize=11, color=SOFT, ha="right", family="monospace"
        )
        if first.given:
            figure.text(left, 0.85, _wrapped(first.given), fontsize=9.5, color=SOFT, va="top")
        output = figure.text(left, 0.74, "", fontsize=11.5, weight="bold", va="top", color=ACCENT)
        if first.reference:
            text = f"reference: {_wrapped(first.reference, 2)}"
            figure.text(left, 0.54, text, fontsize=9.5, color=SOFT, va="top")
        cursor = _draw_loss(figure.add_axes((left, 0.11, 0.97 - left, 0.25)), film)
        for glimpse in film.glimpses:
            loss = "" if glimpse.loss is None else f"  loss {glimpse.loss:5.2f}"
            moment.set_text(f"step {glimpse.step:>6,}{loss}")
            output.set_text(_wrapped(str(glimpse.frame["answer"])))
            if attention is not None:
                attention.show(glimpse)
            cursor.set_xdata([glimpse.step + 1] * 2)
            figure.canvas.draw()
            rgba: Any = figure.canvas
            yield np.asarray(rgba.buffer_rgba())[..., :3].copy()


def _wrapped(text: str, lines: int = LINES) -> str:
    """Break a text into a few lines; the rest of a longer one is left out."""
    plain = drawable(" ".join(text.split()))
    return "\n".join(textwrap.wrap(plain, WIDTH, max_lines=lines, placeholder=" …"))


def _draw_loss(axes: Axes, film: Film) -> Any:
    """Draw the loss over the logarithm of the step; return the cursor."""
    points = [(g.step, g.loss) for g in film.glimpses if g.loss is not None]
    axes.set_facecolor(PAPER)
    axes.plot([step + 1 for step, _ in points], [loss for _, loss in points], color=ACCENT, lw=1.6)
    axes.set_xscale("log")
    axes.set_xlim(1, film.glimpses[-1].step + 1)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    axes.xaxis.set_minor_formatter(lambda step, _: "")
    axes.tick_params(labelsize=8, length=0, which="both")
    axes.set_title("loss over steps", loc="left", fontsize=9, color=SOFT)
    return axes.axvline(1, color=PIN, lw=1.4)


@dataclass(frozen=True)
class _Head:
    """The head that a film shows: index of its map in a frame, layer, and head or MEAN."""

    at: int
    layer: int
    head: int

    @staticmethod
    def of(glimpse: Glimpse) -> _Head | None:
        """The most informative head of a glimpse; None for a model without attention."""
        opening, maps = glimpse.frame["opening"], glimpse.frame["maps"]
        if opening is None:
            return None
        (at,) = [i for i, one in enumerate(maps) if one["name"] == opening["map"]]
        return _Head(at, opening["layer"], opening["head"])

    def weights(self, film: Film, glimpse: Glimpse) -> npt.NDArray[np.float32]:
        """The weights of the head in a glimpse, one row per query."""
        maps = glimpse.frame["maps"][self.at]
        codes = np.frombuffer(gzip.decompress(film.blocks[maps["blocks"][self.layer]]), np.uint8)
        heads = to_weights(codes.reshape(maps["heads"], *maps["shape"]), maps["coding"])
        chosen = heads.mean(0) if self.head == MEAN else heads[self.head]
        return np.asarray(chosen, np.float32)


class _AttentionPanel:
    """The attention of a head: a map with tokens, or an image and its patches."""

    def __init__(self, figure: Figure, film: Film, head: _Head) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import LinearSegmentedColormap

        self.film, self.head = film, head
        last = film.glimpses[-1].frame
        maps, sides = last["maps"][head.at], last["sides"]
        self.keys, queries = sides[maps["keys"]], sides[maps["queries"]]
        greatest = math.sqrt(max(float(self._values(g).max()) for g in film.glimpses)) or 1.0
        viridis: list[Any] = [colormaps["viridis"](level) for level in np.linspace(0.85, 0, 7)]
        colours = LinearSegmentedColormap.from_list("page", [PAPER, *viridis])
        if self.keys["image"]:
            axes = figure.add_axes((0.28, 0.25, 0.23, 0.46))
            picture = figure.add_axes((0.02, 0.25, 0.23, 0.46))
            picture.imshow(_pixels(self.keys["image"]), cmap="gray")
            picture.set_axis_off()
        else:
            axes = figure.add_axes((0.11, 0.05, 0.41, 0.7))
        self.shown = axes.imshow(
            np.zeros(self._values(film.glimpses[0]).shape),
            cmap=colours,
            vmin=0,
            vmax=greatest,
            aspect="equal" if self.keys["image"] else "auto",
        )
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.set_xticks([])
        axes.set_yticks([])
        if not self.keys["image"]:
            _name_tokens(axes, queries["tokens"], self.keys["tokens"])

    def _values(self, glimpse: Glimpse) -> npt.NDArray[np.float32]:
        """The weights of all queries, or those of the first query to the patches of an image.

        Negative similarities are shown as 0.
        """
        weights = self.head.weights(self.film, glimpse)
        if glimpse.frame["maps"][self.head.at]["measure"] != "attention":
            return weights.clip(min=0)
        if not self.keys["image"]:
            return weights
        patches = weights[0, self.keys["num_prefix_tokens"] :]
        return patches.reshape(self.keys["grid"])

    def show(self, glimpse: Glimpse) -> None:
        """Show a glimpse; colours show roots, as those of the page."""
        self.shown.set_data(np.sqrt(np.abs(self._values(glimpse))))


def _name_tokens(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Write the queries at the left and the keys above, if there is room."""
    if max(len(queries), len(keys)) > LABELLED:
        return

    def named(tokens: Sequence[str]) -> list[str]:
        return [drawable(_cut(t.translate(WHITESPACE) if t.isspace() else t)) for t in tokens]

    size = max(4.5, min(9.0, 230 / max(len(queries), len(keys))))
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(keys)), named(keys), rotation=55, ha="left", fontsize=size, color=INK)
    axes.set_yticks(range(len(queries)), named(queries), fontsize=size, color=INK)


def _cut(token: str, most: int = 11) -> str:
    return token if len(token) <= most else token[: most - 1] + "…"


def _pixels(address: str) -> Image:
    """The image in a data address."""
    from PIL import Image

    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
