"""Time and memory of every score function, compared with the reference scaled dot product.

Causal self-attention in float32, forward and backward, at the length of a sentence and at a long
one. The peer is Headway's `ScaledDot`, written as the equation: it computes all scores at once, as
additive attention must.

Memory is measured by `peak_memory`: the largest total of bytes that torch's allocator had
allocated, buffers inside an operator included, from the first operator of the forward pass to the
last of the backward pass. Inputs and parameters are not counted. The resident set of a process
would also contain the allocator's reserves and the libraries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from headway.attention import (
    Additive,
    Bilinear,
    Dot,
    Kernel,
    LinearDot,
    LinearElu,
    Mask,
    ScaledDot,
    SlidingWindow,
)
from headway.training import peak_memory
from headway.transforms import fast
from headway.transforms.fast.dot import FusedDot

SIZES = {"sentences": (64, 4, 32, 32), "long": (1, 4, 1024, 32)}  # B H T K
KERNELS: dict[str, Callable[[int, int], Kernel]] = {
    "additive": lambda heads, width: fast(Additive(heads, width, width, width)),
    "bilinear": lambda heads, width: fast(Bilinear(heads, width, width)),
    "dot": lambda heads, width: fast(Dot()),
    "fused dot": lambda heads, width: FusedDot(),
    "linear": lambda heads, width: LinearDot(),
    "linear elu": lambda heads, width: LinearElu(),
    "window of 128": lambda heads, width: fast(SlidingWindow(128)),
}
PEER = "reference scaled dot"
# Additive attention must not need more than twice the reference's memory. Times, and the memory of
# other scores, have no goal.
GOALS = {"additive": 0.5}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure the speed and the memory of each kernel at each size."""
    rows = []
    for size, shape in SIZES.items():
        inputs = " ".join(f"{letter}{n}" for letter, n in zip("BHTK", shape, strict=True))
        for kernel in KERNELS:
            name, question = f"{kernel}, {inputs}", {"kernel": kernel, "size": size}
            pairs = interleave(ours, peer, rounds, **question)
            rows.append(row(name, pairs, "calls/s", PEER, device, goal=None))
            megabytes = [tuple(side.ask(**question, memory=True) for side in (ours, peer))]
            rows.append(
                row(
                    f"{name}, memory",
                    megabytes,
                    "MB",
                    PEER,
                    device,
                    less_is_better=True,
                    goal=GOALS.get(kernel),
                )
            )
    return rows


def ours(settings: Settings) -> Worker:
    """Run the requested kernel."""
    return _worker(settings, KERNELS)


def peer(settings: Settings) -> Worker:
    """Run the reference instead of the requested kernel."""
    return _worker(settings, dict.fromkeys(KERNELS, lambda heads, width: ScaledDot()))


def _worker(settings: Settings, kernels: dict[str, Callable[[int, int], Kernel]]) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        shape = SIZES[question["size"]]
        once = attention(kernels[question["kernel"]](shape[1], shape[3]), shape)
        if question.get("memory"):
            once()  # thread pools and cached plans are allocated once and not counted
            return {"work": peak_memory(once) / 1e6, "seconds": 1.0}
        calls = settings.work if question["size"] == "sentences" else max(1, settings.work // 10)
        once()
        started = time.perf_counter()
        for _ in range(calls):
            once()
        return {"work": calls, "seconds": time.perf_counter() - started}

    return work


def attention(kernel: Kernel, shape: tuple[int, int, int, int]) -> Callable[[], None]:
    """Return a call of causal self-attention with the gradients of inputs and parameters."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    leaves: list[Tensor] = [q, k, v, *kernel.parameters()]
    direction, mask = torch.ones(shape), Mask(causal=True)

    def once() -> None:
        torch.autograd.grad(kernel(q, k, v, mask), leaves, direction)

    return once
