"""Growth of time with the sequence length: causal self-attention of 1,024 to 16,384 tokens.

    python -m bench.length RESULTS.json PLOT.svg

Time is fitted by c T^x over the last three lengths (a line through the logarithms): x is 1 for
linear time and 2 for quadratic time. Each row contains its points, (T, seconds of one call), so
that the figure can be drawn from the file of results.

The reference dot product computes all T x T scores at once and is measured up to 4,096 tokens only.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.report import Point, Row
from bench.sides import Answer, Settings, Side, Worker
from headway.attention import Kernel, LinearDot, LinearElu, Mask, ScaledDot, SlidingWindow
from headway.transforms import fast
from headway.transforms.fast.dot import FusedDot

ROWS, HEADS, WIDTH = 1, 2, 32  # B H K
LENGTHS = (1024, 2048, 4096, 8192, 16384)
FITTED = 3  # the last points: the first are mostly fixed costs
KERNELS: dict[str, tuple[Callable[[], Kernel], int]] = {
    "linear": (LinearDot, 16384),
    "linear elu": (LinearElu, 16384),
    "window of 128": (lambda: fast(SlidingWindow(128)), 16384),
    "scaled dot": (ScaledDot, 4096),
    "fused dot": (FusedDot, 16384),
}
"""Each kernel with the longest input that is measured."""

AT_MOST, AT_LEAST = 1.2, 1.7
QUADRATIC = {"scaled dot", "fused dot"}
BOTH = ", forward and backward"
WAYS = {"forward": False, "forward and backward": True}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure each kernel, forward alone and with the backward pass.

    Both sides are Headway; the dot products run in the peer's process.
    """
    rows = []
    for way, backward in WAYS.items():
        for kernel, (_, longest) in KERNELS.items():
            side = peer if kernel in QUADRATIC else ours
            lengths = [length for length in LENGTHS if length <= longest]
            for length in lengths:
                side.ask(kernel=kernel, length=length, backward=backward)  # warm-up, not counted
            answers = [
                [side.ask(kernel=kernel, length=n, backward=backward) for n in lengths]
                for _ in range(rounds)
            ]
            times = [[a["seconds"] / a["work"] for a in answer] for answer in answers]
            lines = [list(zip(lengths, seconds, strict=True)) for seconds in times]
            rows.append(growth_row(f"{kernel}, {way}", lines, device, kernel in QUADRATIC))
    return rows


def growth_row(
    name: str, lines: Sequence[Sequence[Point]], device: str, quadratic: bool = False
) -> Row:
    """Return the row that compares the exponent with its bound.

    lines: the points of each round. The exponent is fitted to the medians over the rounds; the
    spread is that of the exponents of single rounds.
    """
    points = [
        (line[0][0], median(seconds for _, seconds in line)) for line in zip(*lines, strict=True)
    ]
    bound = AT_LEAST if quadratic else AT_MOST
    exponents = [exponent(line[-FITTED:]) for line in lines]
    fitted = exponent(points[-FITTED:])
    ratios = [x / bound if quadratic else bound / x for x in [fitted, *exponents]]
    return Row(
        name=f"growth of {name}",
        ours=fitted,
        peer=bound,
        peer_name="at least, for a quadratic one" if quadratic else "at most, for a linear one",
        ratio=ratios[0],
        goal=1.0,
        spread=(min(ratios[1:]), max(ratios[1:])),
        device=device,
        unit="exponent of T",
        points=tuple(points),
    )


def exponent(points: Sequence[Point]) -> float:
    """Return x of the best fit c T^x: the slope of the regression line of the logarithms."""
    xs, ys = ([math.log(n) for n in column] for column in zip(*points, strict=True))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - x_mean) ** 2 for x in xs)


def ours(settings: Settings) -> Worker:
    """Run any kernel at any length, for `settings.work` tenths of a second."""

    def work(question: dict[str, Any]) -> Answer:
        length, backward = question["length"], question["backward"]
        torch.manual_seed(0)
        kernel, mask = KERNELS[question["kernel"]][0](), Mask(causal=True)
        shape = (ROWS, HEADS, length, WIDTH)
        q, k, v = (torch.randn(shape, requires_grad=backward) for _ in range(3))
        direction = torch.ones(shape)
        calls, seconds, started = 0, 0.0, time.perf_counter()
        while not calls or seconds < settings.work / 10:
            context = kernel(q, k, v, mask)
            if backward:
                torch.autograd.grad(context, (q, k, v), direction)
            calls, seconds = calls + 1, time.perf_counter() - started
        return {"work": calls, "seconds": seconds}

    return work


peer = ours


def draw(results: Path, figure: Path) -> None:
    """Plot seconds of a training step (forward and backward) over T, both axes logarithmic."""
    from headway.inspection.plots import line_plot

    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    series = {
        f"{r['name'].removeprefix('growth of ').removesuffix(BOTH)}, T^{r['ours']:.2f}": [
            (float(length), float(seconds)) for length, seconds in r["points"]
        ]
        for r in rows
        if r.get("points") and r["name"].endswith(BOTH)
    }
    if not series:
        raise SystemExit(
            f"{results} has no row with points; run python -m bench --only length first"
        )
    line_plot(
        figure,
        series,
        title="Time of causal self-attention, forward and backward",
        x_label="tokens",
        y_label="seconds a call",
        log_x=True,
        log_y=True,
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
