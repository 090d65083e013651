"""Why the scores are divided by sqrt(d) (lectures 1.9): claim (b).

Two means are taken, because they tell different stories. Without the scale most queries give one
key all their weight and get no gradient: the median query shows that. The few that still waver
between two keys keep theirs, and the gradient on q is made of keys sqrt(d) times as long: they
alone make the root mean square.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headway.attention import Dot, Kernel, Mask, ScaledDot
from headway.lectures.claim import judged, table
from headway.shapes import Float, Tensor

TITLE = "Scores are divided by sqrt(d)"
CLAIM = "dot products grow with d: without the scale softmax saturates and its gradients vanish"

UNSCALED, SCALED = "dot", "scaled dot"
FALLS, STAYS = 0.1, 0.8  # what must be left, at the greatest d, of the gradient at the least
SATURATED = 0.99  # a query whose largest weight is above this has chosen
VALUE_WIDTH = 16  # of the values, the same at every d, so that only the scores change


@dataclass(frozen=True, kw_only=True)
class Row:
    """One width of queries and keys, with the scale or without.

    entropy: of the weights, mean, as a share of log S (1: all keys alike, 0: one key takes all);
    largest: mean of each query's largest weight;
    saturated: share of the queries whose largest weight is above 0.99;
    score_gradient: dL/dscores, root mean square over all queries and keys;
    typical_score_gradient: the same for each query alone, the median query;
    query_gradient, typical_query_gradient: length of dL/dq, root mean square and median.
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
class ScalingResult:
    """Rows for each width, unscaled and scaled, and how many queries each is measured on."""

    rows: tuple[Row, ...]
    keys: int
    queries: int
    seeds: int

    def column(self, kernel: str, name: str) -> list[tuple[float, float]]:
        """(d, number) of one kernel."""
        return [(float(row.width), getattr(row, name)) for row in self.rows if row.kernel == kernel]

    def left(self, kernel: str, name: str) -> float:
        """What is left at the greatest d of the number at the least."""
        column = self.column(kernel, name)
        return column[-1][1] / column[0][1]

    @property
    def verdict(self) -> str:
        """The median query loses its gradient without the scale, and keeps it with it."""
        typical = {name: self.left(name, "typical_score_gradient") for name in (UNSCALED, SCALED)}
        holds = typical[UNSCALED] < FALLS and typical[SCALED] > STAYS
        plain, scaled = (
            next(row for row in reversed(self.rows) if row.kernel == name)
            for name in (UNSCALED, SCALED)
        )
        return judged(
            holds,
            f"from d = {self.rows[0].width} to d = {plain.width} the median query's gradient on "
            f"its scores goes to {typical[UNSCALED]:.2g} of its size without the scale and to "
            f"{typical[SCALED]:.2f} with it; at d = {plain.width} {plain.saturated:.0%} of the "
            f"queries give one key more than {SATURATED} of their weight without the scale and "
            f"{scaled.saturated:.0%} with it. The root mean square without the scale goes to "
            f"{self.left(UNSCALED, 'score_gradient'):.2g} of its size on the scores and to "
            f"{self.left(UNSCALED, 'query_gradient'):.2g} on q",
        )

    def as_dict(self) -> dict[str, Any]:
        """Settings and rows, as plain JSON values."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}

    def markdown(self) -> str:
        """One line for each d and kernel."""
        headings = ("d", "kernel", "entropy / log S", "largest weight", "saturated")
        gradients = ("dL/dscores, RMS", "median query", "length of dL/dq, RMS", "median query")
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
) -> ScalingResult:
    """Random queries and keys of unit variance, as a fresh layer makes them from normed inputs.

    scaled: the kernel that is held against the plain dot product; `ScaledDot` unless given.
    ValueError: fewer than two widths, or queries that are no multiple of 16.
    """
    if len(widths) < 2:
        raise ValueError(f"{widths=} must be two or more: the claim is about growing d")
    if queries % _SHARING:
        raise ValueError(f"{queries=} must be a multiple of {_SHARING}")
    rows = []
    for width in sorted(widths):
        for name, kernel in ((UNSCALED, Dot()), (SCALED, scaled or ScaledDot())):
            found = [_watch(kernel, *x) for x in _inputs(width, keys, queries, seeds)]
            rows.append(_row(width, name, [torch.cat(parts) for parts in zip(*found, strict=True)]))
    return ScalingResult(rows=tuple(rows), keys=keys, queries=queries, seeds=seeds)


def picture(result: ScalingResult, path: Path) -> None:
    """Gradient on the scores over d, both axes logarithmic."""
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


def _watch(
    kernel: Kernel,
    q: Float[Tensor, "B 1 T K"],
    k: Float[Tensor, "B 1 S K"],
    v: Float[Tensor, "B 1 S Kv"],
    direction: Float[Tensor, "B 1 T Kv"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights and dL/dscores, a row of S a query; the length of dL/dq. L = context · direction.

    A bias of zeros is added to the scores: its gradient is theirs.
    """
    q = q.clone().requires_grad_()
    bias = torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype, requires_grad=True)
    loss = (kernel(q, k, v, Mask(), bias) * direction).sum()
    on_scores, on_q = torch.autograd.grad(loss, (bias, q))
    weights = kernel.weights(q.detach(), k, Mask())
    return weights.flatten(0, 2), on_scores.flatten(0, 2), on_q.norm(dim=-1).flatten()


def _row(width: int, kernel: str, found: Sequence[Tensor]) -> Row:
    """All seeds' queries in one."""
    weights, on_scores, on_q = found
    entropy = torch.special.entr(weights).sum(-1).mean() / math.log(weights.shape[-1])
    largest, each = weights.amax(-1), on_scores.square().mean(-1)
    return Row(
        width=width,
        kernel=kernel,
        entropy=float(entropy),
        largest=float(largest.mean()),
        saturated=float((largest > SATURATED).double().mean()),
        score_gradient=float(each.mean().sqrt()),
        typical_score_gradient=float(each.median().sqrt()),
        query_gradient=float(on_q.square().mean().sqrt()),
        typical_query_gradient=float(on_q.median()),
    )
