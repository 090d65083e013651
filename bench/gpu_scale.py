"""Sizes of `bench/gpu.py`, and what the device itself can do: matrix products and a copy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from headway.models import GPTConfig, TranslatorConfig

PROMPT = 32
Run = Callable[[], object]
"""One round of a side."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large and how long everything is. rows, few_rows: sequences of a training batch; with few
    of them the CPU, which launches the kernels, may take longer than the kernels. sentences: that
    are translated. matrix: width of the square
    matrices whose products give the matrix rate. copied: bytes of the copy that gives the
    bandwidth. without: parts of the names of sides that are not measured."""

    device: str = "cuda"
    length: int = 1024
    rows: int = 32
    few_rows: int = 8
    sentences: int = 32
    steps: int = 10
    written: int = 128
    batches: tuple[int, ...] = (1, 64)
    rounds: int = 5
    matrix: int = 8192
    copied: int = 2**32
    compiled: bool = True
    without: tuple[str, ...] = ()

    def gpt(self, size: str) -> GPTConfig:
        if self.device == "cuda":
            shape = {"vocabulary": 8000, "max_length": self.length, **GPTConfig.sizes[size]}
            return GPTConfig(**shape)
        return GPTConfig(vocabulary=60, max_length=self.length + PROMPT)

    def translator(self, size: str) -> TranslatorConfig:
        size = size if self.device == "cuda" else "tiny"
        vocabulary = 32_000 if self.device == "cuda" else 60
        return TranslatorConfig(
            **{**TranslatorConfig.sizes[size], "norm": "post", "dropout": 0.0},
            source_vocabulary=vocabulary,
            target_vocabulary=vocabulary,
        )

    def synchronise(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


DRY = Scale(
    device="cpu",
    length=12,
    rows=3,
    few_rows=2,
    sentences=3,
    steps=1,
    written=4,
    batches=(1, 3),
    rounds=1,
    matrix=64,
    copied=2**16,
    compiled=False,
)


@dataclass(frozen=True)
class Limit:
    """What the device can do, measured. matrix_rate: FLOPs per second of bfloat16 matrix products.
    bandwidth: bytes read and written per second by a copy."""

    matrix_rate: float
    bandwidth: float


def is_without_gpu() -> bool:
    """Whether there is no CUDA device, which is then said on standard error."""
    if torch.cuda.is_available():
        return False
    print("No CUDA device is available, so nothing was measured.", file=sys.stderr)
    return True


def limit(scale: Scale) -> Limit:
    """Measure matrix products and a copy."""
    a, b = (
        torch.randn(scale.matrix, scale.matrix, device=scale.device, dtype=torch.bfloat16)
        for _ in range(2)
    )
    source = torch.empty(scale.copied, dtype=torch.uint8, device=scale.device)
    target = torch.empty_like(source)
    product = _fastest(lambda: a @ b, scale)
    copy = _fastest(lambda: target.copy_(source), scale)
    return Limit(2 * scale.matrix**3 / product, 2 * scale.copied / copy)


def _fastest(run: Run, scale: Scale) -> float:
    """Return the median seconds of a call, of the rounds of 10 calls."""
    seconds = []
    for number in range(scale.rounds + 1):
        scale.synchronise()
        started = time.perf_counter()
        for _ in range(10):
            run()
        scale.synchronise()
        if number:
            seconds.append((time.perf_counter() - started) / 10)
    return median(seconds)
