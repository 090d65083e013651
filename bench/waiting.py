"""How long an idle thread should wait actively: steps per second, alone and beside busy processes.

python -m bench.waiting [--rounds 2]: for 0, 1 and 2 busy processes, and by turns for each value of
GOMP_SPINCOUNT, a new process measures the training of small blocks and the decoding of one text
with two threads. `default` is a torch that Headway has not told anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

SECONDS = 2.5
"""Duration of one measurement."""

COUNTS = ("default", "0", "300", "3000", "30000", "300000")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(*measured())
        return
    print("busy processes  GOMP_SPINCOUNT  training steps/s  tokens/s")
    for busy in range(3):
        neighbours = [subprocess.Popen([sys.executable, "-c", "while 1: 0"]) for _ in range(busy)]
        try:
            results: dict[str, list[list[float]]] = {count: [] for count in COUNTS}
            for _ in range(arguments.rounds):
                for count in COUNTS:
                    results[count].append(in_new_process(count))
        finally:
            for neighbour in neighbours:
                neighbour.kill()
        for count, pairs in results.items():
            training, decoding = (median(figures) for figures in zip(*pairs, strict=True))
            print(f"{busy:<15} {count:<15} {training:<17.1f} {decoding:.1f}", flush=True)


def in_new_process(count: str) -> list[float]:
    """Measure in a process whose threads wait that long: the library reads the number once."""
    waits = {} if count == "default" else {"GOMP_SPINCOUNT": count}
    done = subprocess.run(
        [sys.executable, "-m", "bench.waiting", "--measure"],
        env={**os.environ, **waits},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def measured() -> tuple[float, float]:
    """Return the steps per second of training small blocks, and of decoding one text."""
    import torch
    from torch.nn.functional import gelu, layer_norm

    torch.set_num_threads(2)
    small = torch.nn.Linear(128, 512), torch.nn.Linear(512, 128)
    large = torch.nn.Linear(768, 3072), torch.nn.Linear(3072, 768)

    def blocks(
        x: torch.Tensor, up: torch.nn.Linear, down: torch.nn.Linear, layers: int
    ) -> torch.Tensor:
        for _ in range(layers):
            x = x + down(gelu(up(layer_norm(x, x.shape[-1:]))))
        return x

    texts, token = torch.randn(1024, 128), torch.randn(1, 768)
    training = per_second(lambda: blocks(texts, *small, 8).sum().backward())
    with torch.inference_mode():
        return training, per_second(lambda: blocks(token, *large, 6))


def per_second(step: Callable[[], object]) -> float:
    """Return how many steps are computed per second, after three that are not timed."""
    for _ in range(3):
        step()
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        step()
        steps += 1
    return steps / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
