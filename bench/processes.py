"""Time of what several processes do besides computing, in one process or under torchrun.

    python -m bench.processes saves
    torchrun --nproc-per-node 2 -m bench.processes saves
    torchrun --nproc-per-node 2 -m bench.processes saves shard
    torchrun --nproc-per-node 2 -m bench.processes muon shard
    torchrun --nproc-per-node 2 -m bench.processes sums

saves: how long training waits for a checkpoint that it writes itself, and for one that a thread
writes; and how long a save and some steps take together. muon: the time of an update of all
matrices by Muon. sums: that of adding up all gradients, in messages of several sizes.
Each process has one thread. Numbers are medians of rounds, which alternate.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from headway.base.ranks import Ranks, started
from headway.base.shapes import Tensor
from headway.models import GPT, GPTConfig
from headway.training import (
    Checkpointing,
    Loss,
    OptimizerConfig,
    TrainingState,
    WeightAverage,
    optimizer,
)
from headway.transforms import replicate
from headway.transforms.replicate import Replicas
from headway.transforms.shard import Shards

ROUNDS = 5
STEPS = 2
"""Steps after each save."""
CONFIG = GPTConfig(num_layers=6, model_dim=384, num_heads=6, ffn_dim=1536, vocabulary=8000)


def begun(ranks: Ranks, in_parts: bool, kind: str) -> tuple[TrainingState, Replicas | None]:
    """Return a run after its first update, and what its processes share."""
    torch.manual_seed(1)
    model = GPT(CONFIG)
    replicas = None
    if not ranks.is_alone:
        replicas = Shards(model, ranks, 1) if in_parts else Replicas(model, ranks, 1)
    built = optimizer(model, OptimizerConfig(kind=kind), ranks)
    run = TrainingState(model, built, WeightAverage(model, 0.99))
    run.shards = replicas if isinstance(replicas, Shards) else None
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    built.step()
    return run, replicas


def loss_of(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Loss:
    """Return a loss of all outputs."""
    total = model(tokens).square().mean()
    return Loss(total, total.detach(), 1)


def forward_and_backward(run: TrainingState) -> None:
    """Compute the gradients of a batch, without an update."""
    tokens = torch.randint(0, CONFIG.vocabulary, (4, 64))
    run.model.zero_grad()
    objective = loss_of if run.shards is None else run.shards.objective(loss_of)
    objective(run.model, tokens).total.backward()


def saves(run: TrainingState, replicas: Replicas | None, folder: Path) -> dict[str, list[float]]:
    """Return the seconds of each round, by what was measured."""
    seconds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for in_background, name in ((False, "written at once"), (True, "written by a thread")):
            save = Checkpointing(folder, 1, 1, replicas=replicas, in_background=in_background)
            run.step += 1
            start = time.perf_counter()
            with save.completed(run):
                save.save(run)
                stall = time.perf_counter() - start
                for _ in range(STEPS):
                    forward_and_backward(run)
            seconds.setdefault(f"{name}: training waits", []).append(stall)
            whole = time.perf_counter() - start
            seconds.setdefault(f"{name}: save and {STEPS} steps", []).append(whole)
    return seconds


def updates(run: TrainingState) -> dict[str, list[float]]:
    """Return the seconds of each update, and of its computation in this process."""
    seconds: dict[str, list[float]] = {"update": [], "CPU of an update": []}
    for _ in range(ROUNDS):
        start, cpu = time.perf_counter(), time.process_time()
        run.optimizer.step()
        seconds["update"].append(time.perf_counter() - start)
        seconds["CPU of an update"].append(time.process_time() - cpu)
    return seconds


def sums(replicas: Replicas) -> dict[str, list[float]]:
    """Return the seconds of each sum of all gradients, and of its computation in this process."""
    seconds: dict[str, list[float]] = {}
    for _ in range(2 * ROUNDS):
        for numbers in (8_000_000, 4_000_000, 2_000_000, 1_000_000, 250_000):
            replicate.BUCKET = numbers
            replicas.ranks.totals([0.0], "the start")
            start, cpu = time.perf_counter(), time.process_time()
            replicas.add([1.0], 1)
            seconds.setdefault(f"{numbers:,} numbers", []).append(time.perf_counter() - start)
            own = time.process_time() - cpu
            seconds.setdefault(f"CPU for {numbers:,} numbers", []).append(own)
    return seconds


def main(what: str, in_parts: bool) -> None:
    """Measure, and let the first process print."""
    torch.set_num_threads(1)
    with started(print) as ranks, tempfile.TemporaryDirectory() as own:
        folder = Path(ranks.shared(own, "the folder"))
        run, replicas = begun(ranks, in_parts, "muon" if what == "muon" else "adamw")
        if what == "sums":
            assert replicas is not None, "sums are those of several processes: use torchrun"
            seconds = sums(replicas)
        else:
            seconds = updates(run) if what == "muon" else saves(run, replicas, folder)
        if ranks.is_first:
            for name, rounds in seconds.items():
                shown = ", ".join(f"{value:.3f}" for value in rounds)
                print(f"{name}: {median(rounds):.3f} s of {shown}")


if __name__ == "__main__":
    main(sys.argv[1], "shard" in sys.argv[2:])
