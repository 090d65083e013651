"""Single operations, compared with torch's: attention, dropout, linear layers, cross-entropy.

Forward and backward, float32, attention at the length of a sentence. Both processes have the same
settings, allocator included, so that only the kernels differ. The memory row is the largest total
of live tensors, in megabytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from headway.attention import Mask
from headway.blocks import Dropout
from headway.training import peak_memory
from headway.transforms import fast
from headway.transforms.fast.cross_entropy import chunked_cross_entropy
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.linear import linear

HEADS = (256, 4, 14, 32)  # B H T K: captions in a batch of 4,096 tokens
ACTIVATIONS = (256, 14, 128)  # B T D
TARGETS, WIDTH, VOCABULARY = 3584, 128, 8000  # N D V
LAYER = (2048, 384, 1536)  # N I O: 8 sequences of 256 tokens into a feed-forward layer
SMOOTHING = 0.1
GOAL = 1.2

Kernel = Callable[[], Tensor]
CLAIMS = {
    "attention": ("attention, B256 H4 T14 K32", "torch scaled_dot_product_attention"),
    "dropout": ("dropout, B256 T14 D128", "torch dropout"),
    "linear": ("linear, N2048 I384 O1536", "torch linear"),
    "cross_entropy": ("cross-entropy, N3584 D128 V8000", "torch cross_entropy"),
}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure the speed of each kernel, and the memory of cross-entropy."""
    rows = []
    for kernel, (name, peer_name) in CLAIMS.items():
        pairs = interleave(ours, peer, rounds, kernel=kernel)
        rows.append(row(name, pairs, "calls/s", peer_name, device, goal=GOAL))
    name, peer_name = CLAIMS["cross_entropy"]
    megabytes = [
        tuple(side.ask(kernel="cross_entropy", memory=True) for side in (ours, peer))
        for _ in range(2)
    ]
    memory = f"{name}, memory"
    rows.append(row(memory, megabytes, "MB", peer_name, device, less_is_better=True, goal=GOAL))
    return rows


def ours(settings: Settings) -> Worker:
    """Headway's kernels."""
    return _worker(
        settings, _kernels(_our_attention(), fast(Dropout(0.1)), linear, _our_cross_entropy)
    )


def peer(settings: Settings) -> Worker:
    """torch's kernels."""
    return _worker(
        settings,
        _kernels(
            F.scaled_dot_product_attention,
            lambda x: F.dropout(x, 0.1, training=True),
            F.linear,
            _plain_cross_entropy,
        ),
    )


def _our_attention() -> Callable[..., Tensor]:
    kernel, mask = FusedDot(), Mask()
    return lambda q, k, v: kernel(q, k, v, mask)


def _our_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return chunked_cross_entropy(hidden, weight, targets, SMOOTHING)[0]


def _plain_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    logits = hidden @ weight.T
    return F.cross_entropy(logits, targets, label_smoothing=SMOOTHING, reduction="sum")


def _kernels(
    attention: Callable[..., Tensor],
    dropout: Callable[[Tensor], Tensor],
    layer: Callable[[Tensor, Tensor, Tensor], Tensor],
    cross_entropy: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> dict[str, tuple[Kernel, list[Tensor]]]:
    """Return each kernel applied to its inputs, and the tensors that get a gradient."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(HEADS, requires_grad=True) for _ in range(3))
    x = torch.randn(ACTIVATIONS, requires_grad=True)
    rows, inner, outer = LAYER
    read = torch.randn(rows, inner, requires_grad=True)
    matrix = (torch.randn(outer, inner) * inner**-0.5).requires_grad_()
    offset = torch.zeros(outer, requires_grad=True)
    hidden = torch.randn(TARGETS, WIDTH, requires_grad=True)
    weight = (torch.randn(VOCABULARY, WIDTH) * WIDTH**-0.5).requires_grad_()
    targets = torch.randint(VOCABULARY, (TARGETS,))
    return {
        "attention": (lambda: attention(q, k, v), [q, k, v]),
        "dropout": (lambda: dropout(x), [x]),
        "linear": (lambda: layer(read, matrix, offset), [read, matrix, offset]),
        "cross_entropy": (lambda: cross_entropy(hidden, weight, targets), [hidden, weight]),
    }


def _worker(settings: Settings, kernels: dict[str, tuple[Kernel, list[Tensor]]]) -> Worker:
    gradients = {name: torch.ones_like(kernel()) for name, (kernel, _) in kernels.items()}
    calls = {
        "attention": settings.work,
        "dropout": 2 * settings.work,
        "linear": 5,
        "cross_entropy": 3,
    }

    def work(question: dict[str, Any]) -> Answer:
        name = question["kernel"]
        kernel, inputs = kernels[name]

        def once() -> None:
            torch.autograd.grad(kernel(), inputs, gradients[name])

        if question.get("memory"):
            return {"work": peak_memory(once) / 1e6, "seconds": 1.0}
        started = time.perf_counter()
        for _ in range(calls[name]):
            once()
        return {"work": calls[name], "seconds": time.perf_counter() - started}

    return work
