"""`python -m bench.gpu_operations`: single operations on a GPU, beside torch's.

Operations of a decoding step are timed in a CUDA graph of as many layers as GPT-2 XL has, each with
weights of its own: those of one layer alone would stay in the cache. Without a GPU the exit code is
2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.gpu_scale import is_without_gpu
from headway.transforms.fast.cross_entropy import MULTIPLE
from headway.transforms.recorder import CudaRecorder

LAYERS, ROUNDS = 48, 20
WIDTHS = ((4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400), (2304, 768), (768, 3072))
"""Outputs and inputs of layers of GPT-2 XL and GPT-2 small."""


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _events() -> list[Any]:
    make: Any = torch.cuda.Event
    return [make(enable_timing=True) for _ in range(2)]


def seconds(run: Callable[[], object]) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(ROUNDS):
        begun, ended = _events()
        begun.record()
        run()
        ended.record()
        ended.synchronize()
        times.append(begun.elapsed_time(ended) / 1e3)
    return median(times[ROUNDS // 4 :])


def in_graph(calls: list[Callable[[], Tensor]]) -> float:
    """Return the time of one of these calls in a CUDA graph of all of them."""
    recorder = CudaRecorder(torch.device("cuda"))
    recorder.record(lambda: [call() for call in calls][-1])
    return seconds(recorder.replay) / len(calls)


def line(name: str, of_torch: float, ours: float, bytes_read: int = 0) -> None:
    rate = f"   {bytes_read / ours / 1e12:.2f} TB/s" if bytes_read else ""
    times = f"torch {1e6 * of_torch:9.2f} µs   Headway {1e6 * ours:9.2f} µs"
    print(f"{name:44} {times}   {of_torch / ours:5.2f}x{rate}", flush=True)


def product_of_one_vector(outputs: int, inputs: int) -> None:
    from headway.transforms.kernels.one_vector import linear_of_vector

    x, bias = numbers(1, 1, inputs), numbers(outputs)
    weights = [numbers(outputs, inputs) for _ in range(LAYERS)]
    ours = in_graph([partial(linear_of_vector, x, weight, bias) for weight in weights])
    of_torch = in_graph([partial(F.linear, x, weight, bias) for weight in weights])
    line(f"{outputs} x {inputs} by one vector", of_torch, ours, 2 * outputs * inputs)


def attention_of_new_tokens(rows: int, heads: int, capacity: int, count: int) -> None:
    from headway.transforms.kernels.new_token import attend_new_tokens

    q, k, v = (numbers(rows, heads, 1, 64) for _ in range(3))
    past = torch.full((rows,), count, device="cuda")
    stores = [
        (numbers(rows, heads, capacity, 64), numbers(rows, heads, capacity, 64))
        for _ in range(LAYERS)
    ]
    mask = torch.zeros(rows, 1, 1, capacity, device="cuda", dtype=q.dtype)
    mask[..., count + 1 :] = -torch.inf
    at = torch.arange(rows, device="cuda")

    def by_torch(keys: Tensor, values: Tensor) -> Tensor:
        keys[at, :, past], values[at, :, past] = k[:, :, 0], v[:, :, 0]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)

    ours = in_graph([partial(attend_new_tokens, q, k, v, both, past) for both in stores])
    of_torch = in_graph([partial(by_torch, *both) for both in stores])
    line(f"{rows} x {heads} heads, {count} keys of {capacity}", of_torch, ours)


def loss_of_a_vocabulary(rows: int = 4096, width: int = 768, vocabulary: int = 50_257) -> None:
    from headway.transforms.kernels.loss import loss_of_rows

    hidden, matrix = numbers(rows, width), numbers(vocabulary, width)
    padded = F.pad(matrix, (0, 0, 0, -vocabulary % MULTIPLE))
    logits, of_padded = hidden @ matrix.T, hidden @ padded.T
    products = {
        "logits": (lambda: hidden @ matrix.T, lambda: hidden @ padded.T),
        "gradient of the vectors": (lambda: logits @ matrix, lambda: of_padded @ padded),
        "gradient of the matrix": (lambda: logits.T @ hidden, lambda: of_padded.T @ hidden),
    }
    for name, (odd, even) in products.items():
        line(f"{name}, {vocabulary:,} and padded", seconds(odd), seconds(even))
    targets = torch.randint(vocabulary, (rows,), device="cuda")
    chosen = targets[:, None]

    def plain() -> Tensor:
        exact = logits.float()
        grad = exact.softmax(-1)
        grad.scatter_add_(1, chosen, grad.new_full(chosen.shape, -1.0))
        return grad.to(logits.dtype)

    def ours() -> object:
        return loss_of_rows(of_padded, vocabulary, targets, None, 0.0, wants_grad=True)

    line(f"loss and its gradient, {rows:,} rows", seconds(plain), seconds(ours))


def main() -> int:
    if is_without_gpu():
        return 2
    print(torch.cuda.get_device_name())
    with torch.inference_mode():
        for outputs, inputs in WIDTHS:
            product_of_one_vector(outputs, inputs)
        for heads in ((1, 25, 128, 100), (1, 25, 256, 160), (64, 12, 128, 100)):
            attention_of_new_tokens(*heads)
        loss_of_a_vocabulary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
