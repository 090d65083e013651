"""What an encoder without positions knows of order: nothing (lectures 1.2, 2.4): part of claim (d).

f(s(x)) = s(f(x)): encode the shuffled sentence, or shuffle the encoded one. The weights are those
of a fresh model: no training is involved, it is how the thing is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from headway.lectures.claim import judged, table
from headway.models import Translator, TranslatorConfig

TITLE = "Without positions order is lost"
CLAIM = "an encoder without positions only sees a set of words; positions tell it their order"

Scheme = Literal["none", "sinusoidal", "learned"]
SAME = 1e-5  # relative difference that rounding in float32 explains
APART = 1e-2  # and one that it does not
VOCABULARY = 1000


@dataclass(frozen=True, kw_only=True)
class Row:
    """One position scheme at one depth. difference: the largest |f(s(x)) - s(f(x))| of any number,
    over the root mean square of f(x); the worst seed."""

    positions: str
    layers: int
    difference: float


@dataclass(frozen=True, kw_only=True)
class OrderResult:
    """Rows by position scheme and depth, and what was shuffled."""

    rows: tuple[Row, ...]
    sentences: int
    length: int
    seeds: int

    @property
    def verdict(self) -> str:
        """Equal up to rounding without positions, at every depth, and different with them."""
        without = max(row.difference for row in self.rows if row.positions == "none")
        least = {
            name: min(row.difference for row in self.rows if row.positions == name)
            for name in dict.fromkeys(row.positions for row in self.rows)
            if name != "none"
        }
        figures = " and ".join(f"at least {value:.2g} with {n} ones" for n, value in least.items())
        return judged(
            without <= SAME and min(least.values()) >= APART,
            "encoding a shuffled sentence and shuffling the encoded one differ by at most "
            f"{without:.1g} of the size of the output without positions, by {figures}",
        )

    def as_dict(self) -> dict[str, Any]:
        """Settings and rows, as plain JSON values."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}

    def markdown(self) -> str:
        """One line for each scheme and depth."""
        cells = [tuple(asdict(row).values()) for row in self.rows]
        return (
            table(("positions", "layers", "difference"), cells)
            + f"\n\nEncoder of a fresh Translator, 128 wide; {self.seeds} seeds of "
            f"{self.sentences} random sentences of {self.length} words; float32."
        )


def measure(
    *,
    layers: Sequence[int] = (1, 2, 4, 6),
    sentences: int = 16,
    length: int = 12,
    seeds: int = 3,
) -> OrderResult:
    """Fresh encoders with and without positions on random sentences and shuffles of them.

    ValueError: no depth, or sentences of one word, which have one order only.
    """
    if not layers or length < 2:
        raise ValueError(f"{layers=} must not be empty and {length=} at least 2")
    rows = [
        Row(
            positions=scheme,
            layers=depth,
            difference=max(_difference(scheme, depth, sentences, length, s) for s in range(seeds)),
        )
        for scheme in get_args(Scheme)
        for depth in sorted(layers)
    ]
    return OrderResult(rows=tuple(rows), sentences=sentences, length=length, seeds=seeds)


def picture(result: OrderResult, path: Path) -> None:
    """Difference over depth; its axis is logarithmic."""
    from headway.inspection.plots import line_plot

    series: dict[str, list[tuple[float, float]]] = {}
    for row in result.rows:
        # No difference at all has no logarithm: it is drawn where float32's resolution ends.
        drawn = max(row.difference, torch.finfo(torch.float32).eps)
        series.setdefault(row.positions, []).append((float(row.layers), drawn))
    line_plot(
        path,
        series,
        title=TITLE,
        x_label="encoder layers",
        y_label="largest difference, relative",
        log_y=True,
    )


@torch.no_grad()
def _difference(scheme: Scheme, depth: int, sentences: int, length: int, seed: int) -> float:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Translator(
            TranslatorConfig(
                encoder_layers=depth,
                decoder_layers=1,
                positions=scheme,
                source_vocabulary=VOCABULARY,
                target_vocabulary=VOCABULARY,
            )
        ).eval()
        source = torch.randint(VOCABULARY, (sentences, length))
        shuffle = torch.randperm(length)
        while torch.equal(shuffle, torch.arange(length)):
            shuffle = torch.randperm(length)
    encoded = model.encode(source)
    gap = model.encode(source[:, shuffle]) - encoded[:, shuffle]
    return float(gap.abs().max() / encoded.square().mean().sqrt())
