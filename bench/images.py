"""`python -m bench.images`: a small ViT trained from scratch on CIFAR-10, and transformers' ViT.

Three runs over the same 10,000 images for the same number of epochs: Headway's recipe; Headway with
the peer's settings (AdamW, learned positions, [CLS] pooling, no weight averaging); and
transformers' ViTForImageClassification in the usual loop (`bench.images_peer`). Model size, batch
size, flips and shifts, dtype and threads are the same, with one process each. Scores are those
after the last step on 1,000 held-out images; CPU seconds are those of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.commands import run as run_command
from bench.sides import ROOT

SIDES = ("recipe", "ours", "peer")
TRAIN, VALID = "vision/cifar10_jpg.train10k.zip", "vision/cifar10_jpg.valid1k.zip"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Hyperparameters of all sides.

    width, heads, ffn, layers, patch: size of the ViT. padding: maximum random shift in pixels.
    batch_size: batch size.
    """

    epochs: int = 20
    batch_size: int = 64
    lr: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.05
    smoothing: float = 0.1
    padding: int = 4
    width: int = 128
    heads: int = 4
    ffn: int = 512
    layers: int = 6
    patch: int = 4
    seed: int = 42


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    data = os.environ.get("HEADWAY_DATA")
    if data is None:
        print("set HEADWAY_DATA", file=sys.stderr)
        return 2
    cache = options.cache.resolve()
    (cache / "runs").mkdir(parents=True, exist_ok=True)
    budget = Budget(epochs=options.epochs, seed=options.seed)
    files = [Path(data) / TRAIN, Path(data) / VALID]
    for side in options.sides:
        run = cache / "runs" / f"cifar10-{side}-{time.time_ns()}"
        if side == "peer":
            command = _peer(budget, files, run, options)
        else:
            command = _ours(budget, files, run, options, like_peer=side == "ours")
        cost = run_command(command, cache, log=cache / f"cifar10-{side}.log").cost
        score = json.loads(run.read_text())["accuracy"] if side == "peer" else _last(run)
        record = {"side": side, "accuracy": score, **cost, **asdict(budget)}
        with open(cache / "results.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
        spent = cost["cpu_seconds"]
        print(f"cifar10 {side:8} accuracy {score:.4f}, {spent:.0f} CPU seconds", flush=True)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.images", description=__doc__)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--epochs", type=int, default=Budget.epochs)
    parser.add_argument("--seed", type=int, default=Budget.seed)
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads of each side")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "images")
    return parser.parse_args(arguments)


def _ours(
    budget: Budget, files: list[Path], run: Path, options: argparse.Namespace, like_peer: bool
) -> list[str]:
    settings: dict[str, object] = {
        "--valid": files[1],
        "--run": run.name,
        "--dtype": options.dtype,
        "--threads": options.threads,
        "--epochs": budget.epochs,
        "--training.batch-size": budget.batch_size,
        "--training.seed": budget.seed,
        "--training.smoothing": budget.smoothing,
        "--augmentation.padding": budget.padding,
        "--schedule.warmup": budget.warmup,
        "--model.model-dim": budget.width,
        "--model.num-heads": budget.heads,
        "--model.ffn-dim": budget.ffn,
        "--model.num-layers": budget.layers,
        "--model.patch-size": budget.patch,
    }
    if like_peer:
        settings |= {
            "--optimizer.kind": "adamw",
            "--optimizer.lr": budget.lr,
            "--optimizer.weight-decay": budget.weight_decay,
            "--schedule.final": 0,
            "--training.average": 0,
            "--model.positions": "learned",
            "--model.pooling": "first",
        }
    flags = [str(word) for pair in settings.items() for word in pair]
    return [sys.executable, "-m", "headway", "train", "vision", str(files[0]), *flags]


def _peer(
    budget: Budget, files: list[Path], output: Path, options: argparse.Namespace
) -> list[str]:
    settings = {
        "budget": asdict(budget),
        "files": [str(file) for file in files],
        "output": str(output),
        "dtype": options.dtype,
        "threads": options.threads,
    }
    return [sys.executable, "-m", "bench.images_peer", json.dumps(settings)]


def _last(run: Path) -> float:
    """Return the accuracy after the last step."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return float([event for event in events if event["kind"] == "valid"][-1]["accuracy"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
