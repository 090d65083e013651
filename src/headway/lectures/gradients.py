"""How far the gradient must travel: claim (h), lectures 1.9 and 3.3.

From the last target word back to the first source word: without attention through every state of
the decoder and of the encoder, with attention in one step. The weights are those of fresh models:
what training does later has to begin with these gradients; `first_to_last` measures any model.

An encoder that reads from both ends is no way out: the first source word is then the last that one
of the directions reads, and as near to the context as the last word, but the decoder's states are
between them still.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headway.attention import Mask
from headway.lectures.claim import judged, table
from headway.models import Translator, TranslatorConfig
from headway.shapes import Bool, Float, Int, Tensor

TITLE = "The gradient from the last target word to the first source word"
CLAIM = "attention shortens the gradient's way: without it, it vanishes as sentences grow"

VOCABULARY = 500
WIDTH = 64
MODELS: dict[str, dict[str, Any]] = {
    "GRU": {"cell": "gru", "attention": "none"},
    "GRU, attention": {"cell": "gru", "attention": "additive"},
    "LSTM": {"cell": "lstm", "attention": "none"},
    "LSTM, attention": {"cell": "lstm", "attention": "additive"},
    "GRU, both ends": {"cell": "gru", "attention": "none", "bidirectional": True},
    "Transformer": {"encoder": "transformer", "decoder": "transformer"},
}
FAR = 100.0  # times as large: the gradient with attention at the longest sentence, at least


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one sentence length: the median norm of the gradient, and that norm over the
    one that the last source word gets."""

    model: str
    length: int
    gradient: float
    of_last: float


@dataclass(frozen=True, kw_only=True)
class GradientsResult:
    """Rows by model and length."""

    rows: tuple[Row, ...]
    sentences: int
    seeds: int

    def kept(self, model: str) -> float:
        """What one word more leaves of the gradient: exp of the slope of its logarithm."""
        rows = [row for row in self.rows if row.model == model]
        xs = [float(row.length) for row in rows]
        ys = [math.log(max(row.gradient, 1e-300)) for row in rows]
        return math.exp(statistics.linear_regression(xs, ys).slope)

    @property
    def verdict(self) -> str:
        """Falls exponentially without attention, and is much larger with it, for both cells."""
        longest = max(row.length for row in self.rows)
        at = {row.model: row.gradient for row in self.rows if row.length == longest}
        times = {cell: at[f"{cell}, attention"] / max(at[cell], 1e-300) for cell in ("GRU", "LSTM")}
        kept = ", ".join(f"{self.kept(model):.3f} ({model})" for model in at)
        larger = " and ".join(f"{value:.2g} times ({cell})" for cell, value in times.items())
        return judged(
            min(times.values()) >= FAR,
            f"at {longest} words the gradient is {larger} as large with attention as without; each "
            f"word more keeps this share of it: {kept}",
        )

    def as_dict(self) -> dict[str, Any]:
        """Settings and rows, as plain JSON values."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}

    def markdown(self) -> str:
        """One line for each model and length."""
        cells = [tuple(asdict(row).values()) for row in self.rows]
        headings = ("model", "words", "gradient of the first word", "share of the last word's")
        return (
            table(headings, cells)
            + f"\n\nNorm of d log P(last target word) / d (first source word's vector), median of "
            f"{self.seeds} seeds x {self.sentences} random sentences; as many target as source "
            f"words; fresh models, {WIDTH} wide, 1 layer (the Transformer 2 + 2); encoders read "
            "in one direction unless both ends are named; float64."
        )


def measure(
    *, lengths: Sequence[int] = (5, 10, 20, 40, 80, 160), sentences: int = 8, seeds: int = 5
) -> GradientsResult:
    """Fresh models of each kind on random sentences of each length.

    ValueError: fewer than two lengths, or no sentence or seed.
    """
    if len(set(lengths)) < 2:
        raise ValueError(f"{lengths=} must be two or more: the claim is about growing sentences")
    if sentences < 1 or seeds < 1:
        raise ValueError(f"{sentences=} and {seeds=} must be at least 1")
    lengths = sorted(lengths)
    rows = []
    for name, changes in MODELS.items():
        found: dict[int, list[tuple[float, float]]] = {length: [] for length in lengths}
        for seed in range(seeds):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = _model(changes)
                for length in lengths:
                    words = torch.randint(VOCABULARY, (2, sentences, length))
                    norms = first_to_last(model, words[0], words[1])
                    found[length] += [(float(row[0]), float(row[-1])) for row in norms]
        for length in lengths:
            first = statistics.median(one for one, _ in found[length])
            share = statistics.median(one / last for one, last in found[length])
            rows.append(Row(model=name, length=length, gradient=first, of_last=share))
    return GradientsResult(rows=tuple(rows), sentences=sentences, seeds=seeds)


def first_to_last(
    model: Translator,
    source: Int[Tensor, "B S"],
    target: Int[Tensor, "B T"],
    keys: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Norms of d log P(target_T | target_<T, source) / d x_s for each source word's vector x_s.

    target: <s> and words without padding; the last of them is the one asked for. keys: True at
    real source words (None: all); the others' norm is 0. A model that is training drops some ways
    at random: `model.eval()` before.
    """
    x = model.source_embedding(source).detach().requires_grad_()
    mask = Mask(keys=keys)
    memory = model.encoder(x, mask)
    hidden = model.decoder(model.target_embedding(target[:, :-1]), memory, mask)
    log_p = model.output(hidden[:, -1]).log_softmax(-1).gather(1, target[:, -1:])
    (gradient,) = torch.autograd.grad(log_p.sum(), x)
    norms: Tensor = gradient.norm(dim=-1)
    return norms


def picture(result: GradientsResult, path: Path) -> None:
    """The gradient's norm over the sentence length; both axes are logarithmic."""
    from headway.inspection.plots import line_plot

    series: dict[str, list[tuple[float, float]]] = {}
    for row in result.rows:
        point = (float(row.length), max(row.gradient, 1e-300))
        series.setdefault(row.model, []).append(point)
    line_plot(
        path,
        series,
        title=TITLE,
        x_label="source words",
        y_label="norm of the gradient",
        log_x=True,
        log_y=True,
    )


def _model(changes: dict[str, Any]) -> Translator:
    rnn = {"encoder": "rnn", "decoder": "rnn", "encoder_layers": 1, "decoder_layers": 1}
    shape = {"encoder_layers": 2, "decoder_layers": 2} if "encoder" in changes else rnn
    config = TranslatorConfig(
        model_dim=WIDTH,
        num_heads=1,
        ffn_dim=2 * WIDTH,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        **{"bidirectional": False, **shape, **changes},
    )
    return Translator(config).eval().double()
