"""Time of a layer's product in each dtype on this processor: python -m bench.products

float32 and bfloat16 by torch and by the compiled loops (`loops.py`), and int8 and int4. The
matrices are together larger than the caches, as those of a model are. Microseconds, the lowest of
the rounds. A second table has the three products of a training step, in float32 by each of torch's
libraries.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch

from headway.base.devices import MachineConfig, prepare
from headway.base.shapes import Tensor
from headway.cli.doctor import describe
from headway.transforms.fast import loops
from headway.transforms.fast.linear import by_mkl, by_onednn, linear, mkl_is_fast
from headway.transforms.fast.loops import CodedMatrix
from headway.transforms.quantize.numbers import Int4, Int8

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 1024)
TRAINING_ROWS = (256, 1024, 4096)
BYTES = 256 * 2**20  # of float32 matrices, beyond any cache

Product = Callable[[Tensor], Tensor]


def products(inputs: int, outputs: int) -> Iterator[tuple[str, list[Product]]]:
    """Yield the name of each product, and the product with each of the matrices."""
    count = max(2, BYTES // (4 * inputs * outputs))
    matrices = [torch.randn(outputs, inputs) for _ in range(count)]
    yield "float32, as Headway chooses", [partial(linear, weight=matrix) for matrix in matrices]
    yield "float32, torch", [partial(torch.nn.functional.linear, weight=m) for m in matrices]
    packed = [torch.ops.mkldnn._reorder_linear_weight(matrix) for matrix in matrices]
    yield "float32, oneDNN, packed", [partial(by_onednn, b=matrix) for matrix in packed]
    yield "bfloat16, torch", [partial(_rounded, matrix.bfloat16()) for matrix in matrices]
    if not loops.instructions():
        return
    yield "float32, loops", [partial(loops.product, weight=m, bias=None) for m in matrices]
    short = [matrix.bfloat16() for matrix in matrices]
    yield "bfloat16, loops", [partial(loops.product, weight=m, bias=None) for m in short]
    for numbers in (Int8, Int4):
        stored = [numbers.encode(matrix) for matrix in matrices]
        yield f"{numbers.name}, loops", [CodedMatrix([one]) for one in stored]


def _rounded(matrix: Tensor, x: Tensor) -> Tensor:
    return torch.nn.functional.linear(x.bfloat16(), matrix).float()


def training_products(inputs: int, outputs: int) -> Iterator[tuple[str, list[Product]]]:
    """Yield the name of each product of a step, and the product, of the inputs x."""
    weight, grad = torch.randn(outputs, inputs), torch.randn(max(TRAINING_ROWS), outputs)
    multiplications: dict[str, Callable[..., Tensor]] = {"oneDNN": by_onednn, "MKL": by_mkl}
    for library, multiply in multiplications.items():
        yield f"y = x W^T, {library}", [partial(multiply, b=weight)]
        yield f"dx = dy W, {library}", [partial(_grad_of_inputs, multiply, grad, weight)]
        yield f"dW = dy^T x, {library}", [partial(_grad_of_weight, multiply, grad)]


def _grad_of_inputs(multiply: Callable[..., Tensor], grad: Tensor, w: Tensor, x: Tensor) -> Tensor:
    return multiply(grad[: len(x)], w.t())


def _grad_of_weight(multiply: Callable[..., Tensor], grad: Tensor, x: Tensor) -> Tensor:
    return multiply(grad[: len(x)].t(), x.t())


@torch.inference_mode()
def microseconds(calls: list[Product], rows: int, inputs: int, rounds: int) -> float:
    """Return the time of one product, the lowest of the rounds over all matrices."""
    x = torch.rand(rows, inputs) * 2 - 1
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        for call in calls:
            call(x)
        times.append((time.perf_counter() - begun) / len(calls))
    return 1e6 * min(times)


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=768)
    parser.add_argument("--outputs", type=int, default=3072)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    chosen = parser.parse_args()
    machine = prepare(MachineConfig(device="cpu", threads=chosen.threads))
    print(f"{machine}, {describe()['cpu instructions']}, {chosen.inputs} x {chosen.outputs}")
    torch.manual_seed(0)
    print_table(products(chosen.inputs, chosen.outputs), ROWS, chosen.inputs, chosen.rounds)
    print(f"\ntraining: gradients by {'MKL' if mkl_is_fast() else 'oneDNN'}")
    of_training = training_products(chosen.inputs, chosen.outputs)
    print_table(of_training, TRAINING_ROWS, chosen.inputs, chosen.rounds)


def print_table(
    named: Iterable[tuple[str, list[Product]]], all_rows: Sequence[int], inputs: int, rounds: int
) -> None:
    """Print the microseconds of each product for each number of rows."""
    print("| product |" + "".join(f" {rows} rows |" for rows in all_rows))
    print("|---|" + "--:|" * len(all_rows))
    for name, calls in named:
        cells = [microseconds(calls, rows, inputs, rounds) for rows in all_rows]
        print(f"| {name} |" + "".join(f" {cell:,.0f} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
