"""Time of attention on this processor, beside torch's kernel: python -m bench.attention

Causal self-attention of several lengths in float32 and bfloat16, forward alone and with the
gradients, in one process that alternates between `FusedDot` and torch's
`scaled_dot_product_attention`; the lowest of the rounds. A second table has the products in it, of
many small matrices, by each of torch's libraries.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F

from headway.attention import Mask
from headway.base.devices import MachineConfig, prepare
from headway.base.shapes import Tensor
from headway.cli.doctor import describe
from headway.transforms.fast.batched import batched_product, onednn_is_faster
from headway.transforms.fast.dot import FusedDot, path

# B H T K
SIZES = (
    (256, 4, 14, 32),
    (128, 8, 24, 64),
    (32, 6, 64, 64),
    (16, 6, 128, 64),
    (8, 6, 197, 64),
    (8, 6, 256, 64),
    (4, 12, 512, 64),
    (1, 12, 1024, 64),
    (1, 6, 2048, 64),
)

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    context: Tensor = FusedDot()(q, k, v, Mask(causal=True))
    return context


def torchs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def milliseconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the lowest time of each call, measured in turn."""
    lowest = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begun = time.perf_counter()
            call()
            lowest[i] = min(lowest[i], 1e3 * (time.perf_counter() - begun))
    return lowest


def forward(attend: Attention, inputs: list[Tensor]) -> None:
    with torch.inference_mode():
        attend(*inputs[:3])


def with_gradients(attend: Attention, inputs: list[Tensor]) -> None:
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    attend(*leaves).backward(inputs[3])


def print_attention(rounds: int) -> None:
    """Print the times of causal attention."""
    print("| dtype, B H T K | way | forward, ms | torch's | with gradients, ms | torch's |")
    print("|---|---|--:|--:|--:|--:|")
    for dtype in (torch.float32, torch.bfloat16):
        for rows, heads, length, width in SIZES:
            # the axes as a model has them
            shape = rows, length, heads, width
            inputs = [torch.randn(shape, dtype=dtype).transpose(1, 2) for _ in range(4)]
            way = path(inputs[0], inputs[1], is_masked=True, is_causal=True)
            calls = [
                partial(run, attend, inputs)
                for run in (forward, with_gradients)
                for attend in (ours, torchs)
            ]
            cells = "".join(f" {cell:.2f} |" for cell in milliseconds(calls, rounds))
            name = f"{str(dtype).removeprefix('torch.')}, {rows} {heads} {length} {width}"
            print(f"| {name} | {way} |{cells}", flush=True)


def print_products(rounds: int) -> None:
    """Print the times of Q K^T and P V in float32, where oneDNN can be reached."""
    if not onednn_is_faster():
        print("\nbatched products: MKL's, as oneDNN's cannot be reached or is not faster")
        return
    print("\n| N T K | Q K^T by MKL, ms | oneDNN | P V by MKL | oneDNN |\n|---|--:|--:|--:|--:|")
    for rows, heads, length, width in SIZES:
        count = rows * heads
        q, k, v = (torch.randn(count, length, width) for _ in range(3))
        pairs = (q, k.transpose(1, 2)), (torch.rand(count, length, length), v)
        calls = [
            partial(batched_product, *pair, by_onednn=by_onednn)
            for pair in pairs
            for by_onednn in (False, True)
        ]
        cells = "".join(f" {cell:.2f} |" for cell in milliseconds(calls, rounds))
        print(f"| {count} {length} {width} |{cells}", flush=True)


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=None)
    chosen = parser.parse_args()
    machine = prepare(MachineConfig(device="cpu", threads=chosen.threads))
    print(f"{machine}, {describe()['cpu instructions']}")
    torch.manual_seed(0)
    print_attention(chosen.rounds)
    print_products(chosen.rounds)


if __name__ == "__main__":
    main()
