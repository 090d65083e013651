"""The path length of the gradient: claim (h).

The gradient from the last target word to the first source word passes through every state of the
decoder and the encoder without attention, and takes one step with attention. The models are freshly
initialised, since training starts from these gradients; `first_to_last` measures any model.

A bidirectional encoder does not solve the problem: the first source word is then as near to the
context as the last one, but the states of the decoder are still between them.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headway.attention import Mask
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.inspection.work import Report, Work, unreported
from headway.lectures.claim import Result, judged, table
from headway.models import Translator, TranslatorConfig

TITLE = "The gradient from the last target word to the first source word"
CLAIM = "attention shortens the path of the gradient, which vanishes without it as sentences grow"

VOCABULARY = 500
WIDTH = 64
Changes = dict[str, Any]

MODELS: dict[str, Changes] = {
    "GRU": {"cell": "gru", "attention": "none"},
    "GRU, attention": {"cell": "gru", "attention": "additive"},
    "LSTM": {"cell": "lstm", "attention": "none"},
    "LSTM, attention": {"cell": "lstm", "attention": "additive"},
    "GRU, bidirectional": {"cell": "gru", "attention": "none", "bidirectional": True},
    "Transformer": {"encoder": "transformer", "decoder": "transformer"},
}
FAR = 100.0  # least ratio of the gradients with and without attention, for the longest sentences


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one sentence length.

    gradient: the median norm of the gradient on the first source word. relative_to_last: that norm
    divided by the norm on the last source word.
    """

    model: str
    length: int
    gradient: float
    relative_to_last: float


@dataclass(frozen=True, kw_only=True)
class GradientsResult(Result):
    """Rows by model and length, with the number of sentences and seeds."""

    rows: tuple[Row, ...]
    sentences: int
    seeds: int

    def growth_per_word(self, model: str) -> float:
        """The factor of the gradient per additional word: exp of the slope of its logarithm."""
        rows = [row for row in self.rows if row.model == model]
        xs = [float(row.length) for row in rows]
        ys = [math.log(max(row.gradient, 1e-300)) for row in rows]
        return math.exp(statistics.linear_regression(xs, ys).slope)

    @property
    def verdict(self) -> str:
        """Holds if the gradient with attention is at least 100 times as large, for both cells."""
        longest = max(row.length for row in self.rows)
        at = {row.model: row.gradient for row in self.rows if row.length == longest}
        ratios = {
            cell: at[f"{cell}, attention"] / max(at[cell], 1e-300) for cell in ("GRU", "LSTM")
        }
        factors = ", ".join(f"{self.growth_per_word(model):.3f} ({model})" for model in at)
        larger = " and ".join(f"{value:.2g} times ({cell})" for cell, value in ratios.items())
        return judged(
            min(ratios.values()) >= FAR,
            f"at {longest} words the gradient is {larger} as large with attention as without; each "
            f"additional word multiplies it by {factors}",
        )

    def markdown(self) -> str:
        """A Markdown table with a line for each model and length."""
        cells = [tuple(asdict(row).values()) for row in self.rows]
        headings = ("model", "words", "gradient of the first word", "relative to the last word")
        return (
            table(headings, cells)
            + "\n\nNorm of d log P(last target word) / d (vector of the first source word), median "
            f"of {self.seeds} seeds x {self.sentences} random sentences, with as many target as "
            f"source words; freshly initialised models of width {WIDTH} with 1 layer (the "
            "Transformer 2 + 2); encoders are unidirectional if not named otherwise; float64."
        )


def measure(
    *,
    lengths: Sequence[int] = (5, 10, 20, 40, 80, 160),
    sentences: int = 8,
    seeds: int = 5,
    report: Report = unreported,
) -> GradientsResult:
    """Measure freshly initialised models of each kind on random sentences of each length.

    ValueError for fewer than two lengths, or without sentences or seeds.
    """
    if len(set(lengths)) < 2:
        raise ValueError(
            f"{lengths=}: must be at least two, since the claim is about growing sentences"
        )
    if sentences < 1 or seeds < 1:
        raise ValueError(f"{sentences=}, {seeds=}: must be at least 1")
    lengths = sorted(lengths)
    work = Work(len(MODELS) * seeds * sum(lengths), report)
    rows = []
    for name, changes in MODELS.items():
        norms_at: dict[int, list[tuple[float, float]]] = {length: [] for length in lengths}
        for seed in range(seeds):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = _model(changes)
                for length in lengths:
                    words = torch.randint(VOCABULARY, (2, sentences, length))
                    norms = first_to_last(model, words[0], words[1])
                    norms_at[length] += [(float(row[0]), float(row[-1])) for row in norms]
                    work.done(length)
        for length in lengths:
            gradient = statistics.median(first for first, _ in norms_at[length])
            relative_to_last = statistics.median(first / last for first, last in norms_at[length])
            rows.append(
                Row(model=name, length=length, gradient=gradient, relative_to_last=relative_to_last)
            )
    return GradientsResult(rows=tuple(rows), sentences=sentences, seeds=seeds)


def first_to_last(
    model: Translator,
    source: Int[Tensor, "B S"],
    target: Int[Tensor, "B T"],
    keys: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Norms of d log P(target_T | target_<T, source) / d x_s, for each source word with vector x_s.

    target: <s> and words without padding, of which the last one is predicted. keys: True at source
    words, False at padding, whose norm is 0; None if there is no padding. Call `model.eval()`
    before, since dropout removes paths at random.
    """
    x = model.source_embedding(source).detach().requires_grad_()
    mask = Mask(keys=keys)
    memory = model.encoder(x, mask)
    hidden = model.decoder(model.target_embedding(target[:, :-1]), memory, mask)
    log_p = model.output(hidden[:, -1]).log_softmax(-1).gather(1, target[:, -1:])
    (gradient,) = torch.autograd.grad(log_p.sum(), x)
    norms: Tensor = gradient.norm(dim=-1)
    return norms


def plot(result: GradientsResult, path: Path) -> None:
    """Plot the norm of the gradient over the sentence length; both axes are logarithmic."""
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


def _model(changes: Changes) -> Translator:
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
