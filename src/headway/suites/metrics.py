"""Metrics of suites from sums over rows, with intervals and chance levels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.evaluation.paired import SAMPLES, SEED, Sums
from headway.suites.questions import Judged

LEVEL = 0.95
"""Confidence level of all intervals."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One metric of a suite.

    low, high: the interval of 95 %: exact (Clopper and Pearson 1934) for fractions of rows, a
    bootstrap over rows for others; None with fewer than 2 rows. chance: the expected value of a
    uniformly random choice, exactly; None if it has no meaning.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    interval: str
    chance: float | None
    rows: int


def _ratio(sums: Sequence[float]) -> float:
    return sums[0] / sums[1]


def _perplexity(sums: Sequence[float]) -> float:
    return math.exp(-sums[0] / sums[1])


def _bits(sums: Sequence[float]) -> float:
    return -sums[0] / sums[1] / math.log(2)


def _f1(sums: Sequence[float]) -> float:
    """2 TP / (2 TP + FP + FN) of class 1; 0 without a true or predicted row of it."""
    _, false_positive, false_negative, true_positive = sums
    total = 2 * true_positive + false_positive + false_negative
    return 2 * true_positive / total if total else 0.0


def _matthews(sums: Sequence[float]) -> float:
    """Matthews correlation of two classes; 0 if a row or column of the matrix is empty."""
    tn, fp, fn, tp = sums
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0


def _correlation(sums: Sequence[float]) -> float:
    """Pearson correlation from the sums of x, y, x^2, y^2, x y and 1; 0 if x or y is constant."""
    x, y, xx, yy, xy, n = sums
    product = (xx - x * x / n) * (yy - y * y / n)
    return (xy - x * y / n) / math.sqrt(product) if product > 0 else 0.0


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "acc": _ratio,
    "acc_norm": _ratio,
    "acc_bytes": _ratio,
    "exact_match": _ratio,
    "exact": _ratio,
    "f1_words": _ratio,
    "HasAns_exact": _ratio,
    "HasAns_f1": _ratio,
    "NoAns_exact": _ratio,
    "NoAns_f1": _ratio,
    "f1": _f1,
    "mcc": _matthews,
    "perplexity": _perplexity,
    "word_perplexity": _perplexity,
    "byte_perplexity": _perplexity,
    "bits_per_byte": _bits,
    "pearson": _correlation,
    "spearman": _correlation,
    "ndcg_at_10": _ratio,
    "mrr_at_10": _ratio,
    "recall_at_100": _ratio,
    "v_measure": _ratio,
}
"""Name of a metric -> the metric, computed from the sums of the terms of all rows."""

FRACTIONS = ("acc", "acc_norm", "acc_bytes", "exact_match")
"""Metrics that are a number of rows divided by all rows."""

LOWER_IS_BETTER = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte")

OF_CHANCE = ("acc", "acc_norm", "acc_bytes")


def measured(
    rows: Sequence[Judged],
    names: Sequence[str],
    further: Mapping[str, Callable[[Sequence[float]], float]] | None = None,
) -> list[Measured]:
    """Compute metrics from judged rows; those that no row has are left out.

    further: aggregations beside `AGGREGATIONS`, such as those of sacrebleu.
    """
    aggregations = {**AGGREGATIONS, **(further or {})}
    metrics = []
    for name in names:
        terms = [row.terms[name] for row in rows if name in row.terms]
        if not terms:
            continue
        sums = Sums(np.array(terms, dtype=np.float64), aggregations[name])
        low, high = _interval(name, sums)
        shares = [row.terms["chance"][0] for row in rows if "chance" in row.terms]
        metrics.append(
            Measured(
                name=name,
                value=sums.corpus(),
                low=low,
                high=high,
                interval="exact" if name in FRACTIONS else "bootstrap",
                chance=sum(shares) / len(shares) if name in OF_CHANCE and shares else None,
                rows=len(terms),
            )
        )
    return metrics


def _interval(name: str, sums: Sums) -> tuple[float | None, float | None]:
    if len(sums) < 2:
        return None, None
    if name in FRACTIONS:
        return exact_interval(round(float(sums.terms[:, 0].sum())), len(sums))
    generator = np.random.default_rng(SEED)
    draws = generator.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=SAMPLES)
    values = [sums.value(row) for row in (draws @ sums.terms).tolist()]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail]).tolist()
    return low, high


def exact_interval(hits: int, rows: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (1934) for `hits` of `rows`.

    low solves P(X >= hits | low) = (1 - level) / 2 and high solves P(X <= hits | high) = the same,
    for a binomial X.
    """
    if not 0 <= hits <= rows or not rows:
        raise ValueError(f"{hits=} must be between 0 and {rows=}, which must be at least 1")
    counts = np.arange(rows + 1)
    logs = np.array([math.lgamma(i + 1) for i in range(rows + 1)])
    ways = logs[-1] - logs - logs[::-1]  # log of the binomial coefficients

    def at_least(p: float) -> float:
        probabilities = np.exp(ways + counts * math.log(p) + (rows - counts) * math.log1p(-p))
        return float(probabilities[hits:].sum())

    def at_most(p: float) -> float:
        probabilities = np.exp(ways + counts * math.log(p) + (rows - counts) * math.log1p(-p))
        return float(probabilities[: hits + 1].sum())

    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else _solved(lambda p: at_least(p) - tail)
    high = 1.0 if hits == rows else _solved(lambda p: tail - at_most(p))
    return low, high


def _solved(increasing: Callable[[float], float]) -> float:
    """Return the zero of an increasing function between 0 and 1, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return (low + high) / 2
