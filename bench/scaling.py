"""Growth of time and memory with the work: python -m bench.scaling [--size BYTES]

Each curve doubles one quantity and measures CPU seconds and memory. Both are divided by a theory
(the number of FLOPs, a linear cost, a constant), and the exponent of what remains is fitted by
`bench.length.exponent`: 0 if the measurement grows as the theory, negative if it grows less, as
fixed costs do. The program ends with exit code 1 and names the curves that bend above their theory.

CPU seconds of one thread: on a shared machine they change less than seconds of the clock. Memory is
the peak of live tensors, and for a corpus the peak of the anonymous memory of the process (Linux):
mapped files do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.length import exponent
from headway.base.devices import MachineConfig, prepare
from headway.decoding import MostProbable, Sampling, open_rows, sample_search, steps
from headway.models import GPT, GPTConfig
from headway.models.cost import activation_bytes, formula_parameters, training_flops
from headway.runs import recipe, train
from headway.training import peak_memory
from headway.transforms import fast
from headway.transforms.fast.cross_entropy import chunked_cross_entropy

BEND = 0.2  # the largest exponent above the theory: sizes pass caches, whose speeds differ
MEBIBYTE = 2**20
Theory = Callable[[int], float]


@dataclass(frozen=True)
class Point:
    """The cost at one size: CPU seconds, and bytes at the peak (None if not measured)."""

    size: int
    seconds: float
    memory: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Measured costs over a size, and the theories that they must not exceed."""

    name: str
    points: Sequence[Point]
    time: Theory
    memory: Theory | None = None

    def bends(self) -> dict[str, float]:
        """Return the exponent above the theory, of time and of memory."""
        times = [(p.size, p.seconds / self.time(p.size)) for p in self.points]
        bends = {"time": exponent(times)}
        if self.memory is not None:
            peaks = [(p.size, (p.memory or 0) / self.memory(p.size)) for p in self.points]
            bends["memory"] = exponent(peaks)
        return bends

    def faults(self) -> list[str]:
        """Name what bends above its theory."""
        return [
            f"{kind} over {self.name} grows as its theory times n^{bend:.2f} (at most {BEND})"
            for kind, bend in self.bends().items()
            if bend > BEND
        ]

    def rows(self) -> list[str]:
        """Format as rows of a Markdown table."""
        sizes = " · ".join(f"{p.size:,}" for p in self.points)
        cells = {"time": " · ".join(f"{p.seconds:.3g}" for p in self.points)}
        cells["memory"] = " · ".join(f"{(p.memory or 0) / MEBIBYTE:,.0f}" for p in self.points)
        units = {"time": "s", "memory": "MiB"}
        return [
            f"| {self.name} | {sizes} | {cells[kind]} {units[kind]} | {bend:+.2f} |"
            for kind, bend in self.bends().items()
        ]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of all curves. model: the language model of the curves of one training step."""

    model: GPTConfig
    lengths: Sequence[int]
    batches: Sequence[int]
    layers: Sequence[int]
    widths: Sequence[int]
    positions: Sequence[int]
    corpora: Sequence[int]
    repeats: int


FULL = Plan(
    model=GPTConfig(
        model_dim=256, num_heads=4, ffn_dim=1024, num_layers=4, positions="rotary", vocabulary=2000
    ),
    lengths=(512, 1024, 2048, 4096),
    batches=(4, 8, 16, 32),
    layers=(2, 4, 8, 16),
    widths=(128, 256, 512, 1024),
    positions=(1000, 2000, 4000, 8000),
    corpora=(),
    repeats=3,
)
SMALL = replace(
    FULL,
    model=replace(FULL.model, model_dim=64, ffn_dim=256, num_layers=1, vocabulary=300),
    lengths=(256, 512, 1024),
    batches=(4, 8, 16),
    layers=(1, 2, 4),
    widths=(32, 64, 128),
    positions=(20, 40, 80),
    repeats=1,
)


def step(config: GPTConfig, rows: int, length: int, repeats: int) -> tuple[float, float]:
    """Return CPU seconds and peak bytes of a forward and backward pass of a language model."""
    torch.manual_seed(0)
    model = fast(GPT(config))
    tokens = torch.randint(config.vocabulary, (rows, length))

    def run() -> None:
        hidden = model.hidden(tokens).flatten(0, 1)
        total, _ = chunked_cross_entropy(hidden, model.output.weight, tokens.flatten())
        total.backward()
        model.zero_grad()

    run()
    return min(_seconds(run) for _ in range(repeats)), float(peak_memory(run))


def training_curves(plan: Plan) -> Iterator[Curve]:
    """Yield the curves of one training step: over length, batch size, layers and width."""
    base, tokens = plan.model, 8 * 64

    def curve(
        name: str, sizes: Sequence[int], case: Callable[[int], tuple[GPTConfig, int, int]]
    ) -> Curve:
        def flops(size: int) -> float:
            config, rows, length = case(size)
            return training_flops(config, length) * rows * length

        def memory(size: int) -> float:
            config, rows, length = case(size)
            stored = activation_bytes(config, rows * length, length, element=4)
            return 4 * formula_parameters(config) + stored

        points = [Point(size, *step(*case(size), plan.repeats)) for size in sizes]
        return Curve(name=name, points=points, time=flops, memory=memory)

    yield curve("sequence length T", plan.lengths, lambda n: (base, 1, n))
    yield curve("batch size", plan.batches, lambda n: (base, n, 64))
    yield curve("layers", plan.layers, lambda n: (replace(base, num_layers=n), 8, tokens // 8))
    yield curve(
        "width D", plan.widths, lambda n: (replace(base, model_dim=n, ffn_dim=4 * n), 8, 64)
    )


def decoding_curve(plan: Plan) -> Curve:
    """Return the cost of one token over its position, in greedy decoding with a cache.

    Theory: linear, as token t attends to t keys. Seconds are means over the last tenth of the
    tokens up to a position.
    """
    torch.manual_seed(0)
    model = fast(GPT(plan.model)).eval()
    sampling = Sampling(eos=-1, max_tokens=max(plan.positions), rules=[MostProbable()])
    times = [time.process_time()]
    with torch.inference_mode():
        search = sample_search(model, open_rows(model, [[1]], [[0]], sampling), sampling)
        for _ in steps(model, search):
            times.append(time.process_time())
    points = []
    for position in plan.positions:
        count = position // 10
        points.append(Point(position, (times[position] - times[position - count]) / count))
    return Curve(name="position of a decoded token", points=points, time=float)


def corpus_curve(plan: Plan, folder: Path) -> Curve:
    """Return the cost of tokenising a generated text and training ten steps on it.

    Theory: linear time and constant memory, up to the 16 bytes of each sequence of an epoch.
    """
    points = []
    for number, size in enumerate(plan.corpora):
        text = folder / f"{number}.txt"
        write_text(text, size)
        settings = {
            "data.train": str(text),
            "data.vocabulary": 1000,
            "data.held_out": min(0.05, 1e6 / size),
            "model.model_dim": 32,
            "model.num_heads": 2,
            "model.ffn_dim": 64,
            "model.num_layers": 1,
            "training.batch_size": 8,
            "training.length": 64,
            "training.steps": 10,
            "evaluation.every": 10,
            "evaluation.sample": 0,
            "schedule.warmup": 2,
            "machine.device": "cpu",
            "machine.threads": 1,
        }
        config = recipe("gpt-tiny", ("bench", settings))
        with PeakMemory() as peak:
            seconds = _seconds(partial(train, config, folder / f"run-{number}"))
        points.append(Point(size, seconds, peak.most))
        text.unlink()
    measured = all(point.memory for point in points)
    constant = (lambda size: 1.0) if measured else None
    return Curve(name="bytes of text", points=points, time=float, memory=constant)


def write_text(path: Path, size: int) -> None:
    """Write `size` bytes of lines of made-up words, with frequencies as in Zipf's law."""
    chance = random.Random(0)
    letters = "etaoinshrdlu"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(5000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    # blocks of 1 MB that begin at another line each time: a gigabyte takes seconds
    lines = [" ".join(chance.choices(words, weights, k=12)) + ".\n" for _ in range(15_000)]
    with path.open("w", encoding="ascii") as file:
        while (left := size - file.tell()) > 0:
            first = chance.randrange(len(lines))
            file.write("".join(lines[first:] + lines[:first])[:left])


class PeakMemory:
    """Samples the anonymous memory of the process; `most` is 0 on systems other than Linux."""

    def __enter__(self) -> PeakMemory:
        self.most, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        status = Path("/proc/self/status")
        while status.exists() and not self._done.wait(0.02):
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            self.most = max(self.most, 1024.0 * int(lines["RssAnon"].split()[0]))


def _seconds(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown, and the curves that bend; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--size", type=float, default=1e9, help="bytes of the largest text")
    parser.add_argument("--small", action="store_true", help="small models, as the tests run")
    options = parser.parse_args(arguments)
    size = int(options.size)
    corpora = (size // 8, size) if options.small else (size // 64, size // 8, size)
    plan = replace(SMALL if options.small else FULL, corpora=corpora)
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # otherwise torch's profiler prints messages
    print(prepare(MachineConfig(device="cpu", threads=1)))
    print("| over | sizes | measured | exponent above theory |\n|---|---|---|--:|")
    faults: list[str] = []

    def show(curve: Curve) -> None:
        print("\n".join(curve.rows()), flush=True)
        faults.extend(curve.faults())

    with tempfile.TemporaryDirectory() as folder:
        show(corpus_curve(plan, Path(folder)))
    for curve in training_curves(plan):
        show(curve)
    show(decoding_curve(plan))
    for fault in faults:
        print(f"bends above its theory: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
