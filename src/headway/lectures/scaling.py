"""Why attention scores are divided by sqrt(d): claim (b).

The gradient is summarised in two ways. Without the scale, most queries give nearly all their weight
to one key and their gradient vanishes: the median over queries shows this. A few queries divide
their weight between two keys and keep a large gradient, since keys are sqrt(d) times as long: they
dominate the root mean square.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from headway.attention import Dot, Kernel, Mask, ScaledDot
from headway.base.shapes import Float, Tensor
from headway.inspection.work import Report, Work, unreported
from headway.lectures.claim import Result, judged, table

TITLE = "Scores are divided by sqrt(d)"
CLAIM = "dot products grow with d: without the scale, softmax saturates and its gradients vanish"

UNSCALED, SCALED = "dot", "scaled dot"
FALLS, STAYS = 0.1, 0.8  # limits of the gradient at the largest d relative to the smallest d
SATURATED = 0.99  # a query is saturated if its largest weight is above this
VALUE_WIDTH = 16  # width of the values, the same at every d, so that only the scores change


@dataclass(frozen=True, kw_only=True)
class Row:
    """One width of queries and keys, with or without the scale.

    entropy: mean entropy of the weights divided by log S (1: uniform weights, 0: one key has all);
    largest: mean over queries of the largest weight;
    saturated: fraction of the queries whose largest weight is above 0.99;
    score_gradient: dL/dscores, root mean square over all queries and keys;
    typical_score_gradient: dL/dscores, root mean square over keys, median over queries;
    query_gradient, typical_query_gradient: norm of dL/dq, root mean square and median.
    """

    width: int
    kernel: str
    entropy: float
    largest: float
    saturated: float
    score_gradient: float
    typical_score_gradient: float
    query_gradient: float
    typical_query_gradient: float


@dataclass(frozen=True, kw_only=True)
class ScalingResult(Result):
    """Rows for each width without and with the scale; numbers of keys, queries and seeds."""

    rows: tuple[Row, ...]
    keys: int
    queries: int
    seeds: int

    def column(self, kernel: str, name: str) -> list[tuple[float, float]]:
        """The values of a field of the rows of one kernel, as (d, value)."""
        return [(float(row.width), getattr(row, name)) for row in self.rows if row.kernel == kernel]

    def relative_to_smallest(self, kernel: str, name: str) -> float:
        """The value of a field at the largest d, relative to the smallest d."""
        column = self.column(kernel, name)
        return column[-1][1] / column[0][1]

    @property
    def verdict(self) -> str:
        """Holds if the gradient of the median query vanishes without the scale, and not with it."""
        typical = {
            name: self.relative_to_smallest(name, "typical_score_gradient")
            for name in (UNSCALED, SCALED)
        }
        holds = typical[UNSCALED] < FALLS and typical[SCALED] > STAYS
        plain, scaled = (
            next(row for row in reversed(self.rows) if row.kernel == name)
            for name in (UNSCALED, SCALED)
        )
        return judged(
            holds,
            f"from d = {self.rows[0].width} to d = {plain.width}, the gradient of the median query "
            f"on its scores is multiplied by {typical[UNSCALED]:.2g} without the scale and by "
            f"{typical[SCALED]:.2f} with it; at d = {plain.width}, {plain.saturated:.0%} of the "
            f"queries give more than {SATURATED} of their weight to one key without the scale and "
            f"{scaled.saturated:.0%} with it. The root mean square without the scale is multiplied "
            f"by {self.relative_to_smallest(UNSCALED, 'score_gradient'):.2g} for the scores and by "
            f"{self.relative_to_smallest(UNSCALED, 'query_gradient'):.2g} for q",
        )

    def markdown(self) -> str:
        """A Markdown table with a line for each d and kernel."""
        headings = ("d", "kernel", "entropy / log S", "largest weight", "saturated")
        gradients = ("dL/dscores, RMS", "median query", "norm of dL/dq, RMS", "median query")
        cells = [tuple(asdict(row).values()) for row in self.rows]
        return (
            table((*headings, *gradients), cells) + f"\n\n{self.keys} keys; {self.seeds} seeds of "
            f"{self.queries:,} queries; q, k and v ~ N(0, 1); L is the context times a random "
            "direction; float64."
        )


def measure(
    *,
    widths: Sequence[int] = (4, 16, 64, 256, 1024),
    keys: int = 32,
    queries: int = 1024,
    seeds: int = 5,
    scaled: Kernel | None = None,
    report: Report = unreported,
) -> ScalingResult:
    """Measure random queries and keys of unit variance, as a freshly initialised layer has them.

    scaled: the kernel to compare with the plain dot product; if unset, `ScaledDot`. ValueError for
    fewer than two widths, or if the number of queries is not a multiple of 16.
    """
    if len(widths) < 2:
        raise ValueError(f"{widths=}: must be at least two, since the claim is about growing d")
    if queries % _SHARING:
        raise ValueError(f"{queries=}: must be a multiple of {_SHARING}")
    work = Work(2 * sum(widths), report)
    rows = []
    for width in sorted(widths):
        for name, kernel in ((UNSCALED, Dot()), (SCALED, scaled or ScaledDot())):
            measured = [_measure(kernel, *x) for x in _inputs(width, keys, queries, seeds)]
            joined = [torch.cat(parts) for parts in zip(*measured, strict=True)]
            rows.append(_row(width, name, joined))
            work.done(width)
    return ScalingResult(rows=tuple(rows), keys=keys, queries=queries, seeds=seeds)


def plot(result: ScalingResult, path: Path) -> None:
    """Plot the gradient on the scores over d; both axes are logarithmic."""
    from headway.inspection.plots import line_plot

    series = {
        f"{kernel}, {label}": result.column(kernel, name)
        for kernel in (UNSCALED, SCALED)
        for label, name in _DRAWN.items()
    }
    line_plot(
        path,
        series,
        title=TITLE,
        x_label="d, width of queries and keys",
        y_label="gradient of the loss on the scores",
        log_x=True,
        log_y=True,
    )


_DRAWN = {"RMS": "score_gradient", "median query": "typical_score_gradient"}
_SHARING = 16  # queries that share one set of keys


def _inputs(width: int, keys: int, queries: int, seeds: int) -> Iterator[tuple[Tensor, ...]]:
    """q, k, v and a random direction of length 1 for each query, from each seed in turn."""
    sets = queries // _SHARING
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        normal = partial(torch.randn, generator=generator, dtype=torch.float64)
        q, k = normal(sets, 1, _SHARING, width), normal(sets, 1, keys, width)
        v, direction = normal(sets, 1, keys, VALUE_WIDTH), normal(sets, 1, _SHARING, VALUE_WIDTH)
        yield q, k, v, direction / direction.norm(dim=-1, keepdim=True)


def _measure(
    kernel: Kernel,
    q: Float[Tensor, "B 1 T K"],
    k: Float[Tensor, "B 1 S K"],
    v: Float[Tensor, "B 1 S Kv"],
    direction: Float[Tensor, "B 1 T Kv"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights and dL/dscores (S values for each query), and the norm of dL/dq.

    L = context · direction. A bias of zeros is added to the scores; its gradient is dL/dscores.
    """
    q = q.clone().requires_grad_()
    bias = torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype, requires_grad=True)
    loss = (kernel(q, k, v, Mask(), bias) * direction).sum()
    on_scores, on_q = torch.autograd.grad(loss, (bias, q))
    weights = kernel.weights(q.detach(), k, Mask())
    return weights.flatten(0, 2), on_scores.flatten(0, 2), on_q.norm(dim=-1).flatten()


def _row(width: int, kernel: str, measured: Sequence[Tensor]) -> Row:
    """Summarise the queries of all seeds."""
    weights, on_scores, on_q = measured
    entropy = torch.special.entr(weights).sum(-1).mean() / math.log(weights.shape[-1])
    largest, of_query = weights.amax(-1), on_scores.square().mean(-1)
    return Row(
        width=width,
        kernel=kernel,
        entropy=float(entropy),
        largest=float(largest.mean()),
        saturated=float((largest > SATURATED).double().mean()),
        score_gradient=float(of_query.mean().sqrt()),
        typical_score_gradient=float(of_query.median().sqrt()),
        query_gradient=float(on_q.square().mean().sqrt()),
        typical_query_gradient=float(on_q.median()),
    )
