"""Every score beside the reference scaled dot product: time and memory, forward and backward.

Causal self-attention in float32, at a sentence's length and at a long one. The peer is Headway's
own `ScaledDot`, written as the equation: it makes all scores, as additive attention must.

The memory rows are what `bench.kernels.peak_memory` counts: the largest sum of bytes that torch's
allocator had handed out at once, buffers inside an operator included, from the first operator of
the forward pass to the last of the backward one; what was there before (inputs, parameters) does
not count. A process's resident size would add the allocator's own habits and the libraries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.kernels import peak_memory
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
from headway.transforms import fast
from headway.transforms.fast import FusedDot

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
# Additive attention keeps within twice the reference's memory. A time is stated and has no goal,
# and so has the memory of the others.
GOALS = {"additive": 0.5}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """A row of speed and a row of memory for each kernel and size."""
    rows = []
    for size, shape in SIZES.items():
        inputs = " ".join(f"{letter}{n}" for letter, n in zip("BHTK", shape, strict=True))
        for kernel in KERNELS:
            name, asked = f"{kernel}, {inputs}", {"kernel": kernel, "size": size}
            pairs = interleave(ours, peer, rounds, **asked)
            rows.append(row(name, pairs, "calls/s", PEER, device, goal=None))
            bytes_each = [tuple(side.ask(**asked, memory=True) for side in (ours, peer))]
            rows.append(
                row(
                    f"{name}, memory",
                    bytes_each,
                    "MB",
                    PEER,
                    device,
                    less_is_better=True,
                    goal=GOALS.get(kernel),
                )
            )
    return rows


def ours(settings: Settings) -> Worker:
    """The kernel that is asked for."""
    return _worker(settings, KERNELS)


def peer(settings: Settings) -> Worker:
    """The reference, whatever is asked for."""
    return _worker(settings, dict.fromkeys(KERNELS, lambda heads, width: ScaledDot()))


def _worker(settings: Settings, kernels: dict[str, Callable[[int, int], Kernel]]) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        shape = SIZES[question["size"]]
        once = attention(kernels[question["kernel"]](shape[1], shape[3]), shape)
        if question.get("memory"):
            once()  # what is made once (thread pools, cached plans) is not the kernel's
            return {"work": peak_memory(once) / 1e6, "seconds": 1.0}
        calls = settings.work if question["size"] == "sentences" else max(1, settings.work // 10)
        once()
        started = time.perf_counter()
        for _ in range(calls):
            once()
        return {"work": calls, "seconds": time.perf_counter() - started}

    return work


def attention(kernel: Kernel, shape: tuple[int, int, int, int]) -> Callable[[], None]:
    """Causal self-attention over random inputs, with the gradients of inputs and parameters."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    leaves: list[Tensor] = [q, k, v, *kernel.parameters()]
    direction, mask = torch.ones(shape), Mask(causal=True)

    def once() -> None:
        torch.autograd.grad(kernel(q, k, v, mask), leaves, direction)

    return once
