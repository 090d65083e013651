"""The causal mask gives the same result as a loop over growing keys: claim (f).

The naive way to keep a query from attending to later keys is one call of attention per position,
with only the keys up to that position. The mask computes all positions in one call.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from headway.attention import Kernel, Mask, ScaledDot
from headway.base.shapes import Float, Tensor
from headway.inspection.work import Report, Work, unreported
from headway.lectures.claim import Result, judged, table
from headway.transforms.fast.dot import FusedDot

TITLE = "One masked call or a loop of growing keys"
CLAIM = "the causal mask gives the result of the naive loop over growing keys, in less time"

# Largest difference that rounding explains, since sums are computed in another order.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kernel at one length.

    Differences are maxima over the context vectors, in float32 and float64; seconds are medians in
    float32.
    """

    kernel: str
    length: int
    difference32: float
    difference64: float
    loop_seconds: float
    mask_seconds: float

    @property
    def ratio(self) -> float:
        """The time of the loop divided by the time of the mask."""
        return self.loop_seconds / self.mask_seconds


@dataclass(frozen=True, kw_only=True)
class GrowingKeysResult(Result):
    """Rows by kernel and length, and their common shape."""

    rows: tuple[Row, ...]
    heads: int
    head_dim: int
    rounds: int
    threads: int

    @property
    def verdict(self) -> str:
        """Holds if the results are equal up to rounding and the mask is faster, at every length."""
        single = max(row.difference32 for row in self.rows)
        double = max(row.difference64 for row in self.rows)
        same = single <= TOLERANCE[torch.float32] and double <= TOLERANCE[torch.float64]
        holds = same and all(row.ratio > 1 for row in self.rows)
        ratios = " and ".join(
            f"{min(row.ratio for row in rows):.1f} to {max(row.ratio for row in rows):.1f} times "
            f"({kernel})"
            for kernel, rows in self._by_kernel().items()
        )
        return judged(
            holds,
            f"the results differ by at most {single:.1g} in float32 and {double:.1g} in float64; "
            f"the loop takes {ratios} as long as the mask",
        )

    def as_dict(self) -> dict[str, object]:
        rows = [{**asdict(row), "ratio": row.ratio} for row in self.rows]
        return {**super().as_dict(), "rows": rows}

    def markdown(self) -> str:
        """A Markdown table with a line for each kernel and length."""
        headings = ("kernel", "T", "difference, float32", "difference, float64")
        times = ("loop, ms", "mask, ms", "loop / mask")
        cells = [
            (
                *(row.kernel, row.length, row.difference32, row.difference64),
                *(1e3 * row.loop_seconds, 1e3 * row.mask_seconds, row.ratio),
            )
            for row in self.rows
        ]
        return (
            table((*headings, *times), cells)
            + f"\n\nB1 H{self.heads} K{self.head_dim}, forward only; times are medians of "
            f"{self.rounds} alternating rounds in float32; CPU threads: {self.threads}."
        )

    def _by_kernel(self) -> dict[str, list[Row]]:
        names = dict.fromkeys(row.kernel for row in self.rows)
        return {name: [row for row in self.rows if row.kernel == name] for name in names}


def measure(
    *,
    lengths: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    heads: int = 4,
    head_dim: int = 32,
    rounds: int = 7,
    kernels: Sequence[Kernel] | None = None,
    report: Report = unreported,
) -> GrowingKeysResult:
    """Measure loop and mask alternately, so that other load on the machine affects both.

    kernels: if unset, `ScaledDot` and `FusedDot`. ValueError without lengths, rounds or kernels.
    """
    kernels = (ScaledDot(), FusedDot()) if kernels is None else kernels
    if not lengths or not kernels or rounds < 1:
        raise ValueError(f"{lengths=}, {kernels=}, {rounds=}: must not be empty or 0")
    # the loop makes `length` calls with up to `length` keys, in every round and both dtypes
    squares = sum(length**2 for length in lengths)
    work = Work(len(kernels) * (len(TOLERANCE) + rounds) * squares, report)
    rows = [
        _row(kernel, length, heads, head_dim, rounds, work)
        for kernel in kernels
        for length in sorted(lengths)
    ]
    return GrowingKeysResult(
        rows=tuple(rows),
        heads=heads,
        head_dim=head_dim,
        rounds=rounds,
        threads=torch.get_num_threads(),
    )


def plot(result: GrowingKeysResult, path: Path) -> None:
    """Plot the time of loop and mask over T; both axes are logarithmic."""
    from headway.inspection.plots import line_plot

    series = {
        f"{kernel}, {name}": [(float(row.length), getattr(row, f"{name}_seconds")) for row in rows]
        for kernel, rows in result._by_kernel().items()
        for name in ("loop", "mask")
    }
    line_plot(
        path,
        series,
        title=TITLE,
        x_label="T, number of positions",
        y_label="seconds",
        log_x=True,
        log_y=True,
    )


def growing_keys(
    kernel: Kernel,
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T Kv"],
) -> Float[Tensor, "B H T Kv"]:
    """The naive loop: one call per query, with only the keys up to its position."""
    contexts = [
        kernel(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1], Mask())
        for t in range(q.shape[2])
    ]
    return torch.cat(contexts, dim=2)


@torch.no_grad()
def _row(kernel: Kernel, length: int, heads: int, head_dim: int, rounds: int, work: Work) -> Row:
    difference = {}
    for dtype in TOLERANCE:
        q, k, v = _inputs(length, heads, head_dim, dtype)
        gap = growing_keys(kernel, q, k, v) - kernel(q, k, v, Mask(causal=True))
        difference[dtype] = float(gap.abs().max())
        work.done(length**2)
    q, k, v = _inputs(length, heads, head_dim, torch.float32)
    loop, mask = [], []
    for _ in range(rounds):
        loop.append(_seconds(lambda: growing_keys(kernel, q, k, v)))
        mask.append(_seconds(lambda: kernel(q, k, v, Mask(causal=True))))
        work.done(length**2)
    return Row(
        kernel=type(kernel).__name__,
        length=length,
        difference32=difference[torch.float32],
        difference64=difference[torch.float64],
        loop_seconds=median(loop),
        mask_seconds=median(mask),
    )


def _inputs(length: int, heads: int, head_dim: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    shape = (1, heads, length, head_dim)
    return [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(3)]


def _seconds(run: Callable[[], Tensor]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
