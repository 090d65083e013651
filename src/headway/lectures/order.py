"""An encoder without positions is permutation-equivariant: part of claim (d).

f(s(x)) = s(f(x)): encoding a shuffled sentence is the same as shuffling the encoded sentence. The
models are freshly initialised, since the claim follows from the architecture, not from training.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from headway.inspection.work import Report, Work, unreported
from headway.lectures.claim import Result, judged, table
from headway.models import Translator, TranslatorConfig

TITLE = "Without positions order is lost"
CLAIM = "an encoder without positions ignores the order of words; positions encode it"

Scheme = Literal["none", "sinusoidal", "learned"]
SAME = 1e-5  # relative difference that rounding in float32 explains
APART = 1e-2  # relative difference that rounding does not explain
VOCABULARY = 1000


@dataclass(frozen=True, kw_only=True)
class Row:
    """One position scheme at one depth.

    difference: the maximum of |f(s(x)) - s(f(x))|, divided by the root mean square of f(x), over
    all seeds.
    """

    positions: str
    layers: int
    difference: float


@dataclass(frozen=True, kw_only=True)
class OrderResult(Result):
    """Rows by position scheme and depth, and the sentences that were shuffled."""

    rows: tuple[Row, ...]
    sentences: int
    length: int
    seeds: int

    @property
    def verdict(self) -> str:
        """Holds if outputs are equal up to rounding without positions, and different with them."""
        without = max(row.difference for row in self.rows if row.positions == "none")
        least = {
            name: min(row.difference for row in self.rows if row.positions == name)
            for name in dict.fromkeys(row.positions for row in self.rows)
            if name != "none"
        }
        figures = " and ".join(
            f"at least {value:.2g} with {n} positions" for n, value in least.items()
        )
        return judged(
            without <= SAME and min(least.values()) >= APART,
            "encoding a shuffled sentence and shuffling the encoded sentence differ by at most "
            f"{without:.1g} (relative to the output) without positions, and by {figures}",
        )

    def markdown(self) -> str:
        """A Markdown table with a line for each scheme and depth."""
        cells = [tuple(asdict(row).values()) for row in self.rows]
        return (
            table(("positions", "layers", "difference"), cells)
            + f"\n\nEncoder of a freshly initialised Translator of width 128; {self.seeds} seeds "
            f"of {self.sentences} random sentences of {self.length} words; float32."
        )


def measure(
    *,
    layers: Sequence[int] = (1, 2, 4, 6),
    sentences: int = 16,
    length: int = 12,
    seeds: int = 3,
    report: Report = unreported,
) -> OrderResult:
    """Measure freshly initialised encoders on random sentences and their permutations.

    ValueError without depths, or for sentences of one word, which have only one order.
    """
    if not layers or length < 2:
        raise ValueError(f"{layers=}, {length=}: must not be empty, and at least 2")
    work = Work(len(get_args(Scheme)) * sum(layers) * seeds, report)

    def difference(scheme: Scheme, depth: int, seed: int) -> float:
        value = _difference(scheme, depth, sentences, length, seed)
        work.done(depth)
        return value

    rows = [
        Row(
            positions=scheme,
            layers=depth,
            difference=max(difference(scheme, depth, seed) for seed in range(seeds)),
        )
        for scheme in get_args(Scheme)
        for depth in sorted(layers)
    ]
    return OrderResult(rows=tuple(rows), sentences=sentences, length=length, seeds=seeds)


def plot(result: OrderResult, path: Path) -> None:
    """Plot the difference, on a logarithmic axis, over the depth."""
    from headway.inspection.plots import line_plot

    series: dict[str, list[tuple[float, float]]] = {}
    for row in result.rows:
        # A difference of 0 has no logarithm: it is drawn at the resolution of float32.
        drawn = max(row.difference, torch.finfo(torch.float32).eps)
        series.setdefault(row.positions, []).append((float(row.layers), drawn))
    line_plot(
        path,
        series,
        title=TITLE,
        x_label="encoder layers",
        y_label="largest relative difference",
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
