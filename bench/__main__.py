"""`python -m bench`: speed compared with other libraries, as a table and a JSON file.

Rounds of the two libraries alternate (ours, peer, ours, peer ...), each in its own process. The
ratio is that of neighbouring rounds, so that a slower machine slows both down. A row is measured by
the command that a user types, with its defaults, or by a program of a few lines; functions with
chosen settings only explain. The table begins with the processor and its kind, and shows which
ratios are below the goal for that kind.

What was measured is kept after each peer: `--resume` goes on with the rows of the same day and
conditions. A peer that fails does not end the others; the exit code is then 1. A file in
bench/results has all rows of one day on one kind of machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from importlib import import_module, util
from pathlib import Path
from typing import Any

from bench.goals import kind
from bench.report import FUNCTIONS, Row, RowsOfDay, as_json, command_line, processor, shown, today
from bench.sentences import SENTENCES, source_of_data, trained, write_sentences
from bench.sides import ROOT, Settings, Side
from headway.base.files import write_file
from headway.cli.doctor import machine_kind

CLAIMS: dict[str, tuple[int, int]] = {
    "training": (100, 40),  # steps of a command
    "decoding": (1, 1),
    "translation": (1000, 600),  # sentences of a command
    "serving": (64, 16),  # tokens for each client
    "start": (1, 1),
    "defaults": (100, 40),
    "embeddings": (1000, 200),
    "encoders": (1, 1),
    "watching": (4, 1),
    "chat": (60, 40),
    "kernels": (40, 5),
    "scores": (20, 2),
    "length": (5, 1),
}
"""Each claim with the work of one round, and that of a quick one: training steps, sentences, texts
or kernel calls; for `length`, tenths of a second per sequence length."""
ON_GPU = ("training", "decoding", "serving", "start", "defaults")
"""The claims that are measured on a GPU; `bench.gpu` measures what explains them."""
OPERATIONS = {"kernels", "scores", "length"}  # the other claims are whole models
FULL_STEPS, QUICK_STEPS = 600, 100


@dataclass(frozen=True)
class NotMeasured:
    """What was not measured, and why: a peer is not installed, or a side failed."""

    what: str
    is_failure: bool = False


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rounds = options.rounds or (2 if options.quick else 5)
    claims = options.only or (ON_GPU if kind() == "gpu" else [*CLAIMS])
    if options.threads:  # as a user sets it, for the commands of both sides
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    conditions: dict[str, Any] = {
        "rounds": rounds,
        "threads": options.threads or "each library's own",
        "data": source_of_data(),
        "allocator": "each library's own"
        if not options.same_allocator
        else "Headway's settings for both",
    }
    day = RowsOfDay(options.cache / f"rows-{today()}.json", {**conditions, "quick": options.quick})
    if not options.resume:
        day.forget()
    missing: list[NotMeasured] = []
    for claim in claims:
        missing += _measure(claim, rounds, options, day)
    rows = day.of(claims, options.peers)
    print(_heading(conditions))
    print(shown(rows))
    for one in missing:
        print(f"not measured: {one.what}")
    path = _results_path(options, is_complete=not missing)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, as_json(rows, command_line(arguments), conditions).encode())
    print(f"written to {os.path.relpath(path)}")
    return 1 if any(one.is_failure for one in missing) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short measurement of two minutes")
    parser.add_argument(
        "--rounds", type=int, help="number of pairs of rounds (default 5; with --quick 2)"
    )
    parser.add_argument("--only", nargs="+", choices=CLAIMS, help="measure these claims only")
    parser.add_argument(
        "--peers", nargs="+", help="compare with these peers only, by the names that are printed"
    )
    parser.add_argument(
        "--cache", type=Path, default=ROOT / "build" / "bench", help="folder of trained models"
    )
    parser.add_argument(
        "--run",
        type=Path,
        help="run folder of a translation model; if unset, one is trained",
    )
    parser.add_argument(
        "--threads",
        type=int,
        help="number of CPU threads of each side; if unset, functions compute with all cores, and "
        "commands with the number that they choose",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep what was measured today under the same conditions, and measure the rest",
    )
    parser.add_argument(
        "--same-allocator",
        action="store_true",
        help="use Headway's allocator and oneDNN settings for the peer too",
    )
    return parser.parse_args(arguments)


def _cached(options: argparse.Namespace) -> Path:
    """Return the trained model; --quick uses the fully trained one if it exists."""
    full: Path = options.cache / "runs" / f"{source_of_data()}-{FULL_STEPS}"
    brief = options.quick and not (full / SENTENCES).is_file()
    return trained(options.cache.resolve(), QUICK_STEPS if brief else FULL_STEPS)


def _folder(claim: str, options: argparse.Namespace) -> Path:
    """Return the folder of a claim's models: a trained run, or that of models that it writes."""
    if claim != "translation":
        folder: Path = options.cache / "models"
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve()
    run: Path = options.run or _cached(options)
    if not (run / SENTENCES).is_file():
        write_sentences(run)
    return run.resolve()


def _measure(
    claim: str, rounds: int, options: argparse.Namespace, day: RowsOfDay
) -> list[NotMeasured]:
    """Measure a claim beside each peer, into `day`; return what was not measured, and why."""
    module = import_module(f"bench.{claim}")
    by = getattr(module, "BY", FUNCTIONS)

    def settings(side: str) -> Settings:
        allocator = side == "ours" or claim in OPERATIONS or options.same_allocator
        return Settings(
            claim=claim,
            side=side,
            folder=str(folder),
            threads=options.threads or os.cpu_count() or 1,
            allocator=allocator if by == FUNCTIONS else None,
            work=CLAIMS[claim][options.quick],
        )

    if reason := getattr(module, "missing", lambda: None)():
        print(f"{claim} is skipped: {reason}", file=sys.stderr, flush=True)
        return [NotMeasured(f"{claim}: {reason}")]
    folder = _folder(claim, options)
    threads = f"{options.threads} threads" if options.threads else "threads by default"
    device = "cuda" if kind() == "gpu" and by != FUNCTIONS else f"cpu, {threads}"
    not_measured: list[NotMeasured] = []
    requirements = getattr(module, "REQUIRES", {})
    for name in getattr(module, "PEERS", ("peer",)):
        if options.peers and name not in options.peers:
            continue
        if (claim, name) in day:
            continue
        if absent := [p for p in requirements.get(name, ()) if util.find_spec(p) is None]:
            reason = f"not installed: {', '.join(absent)}"
            print(f"{claim} beside {name} is skipped: {reason}", file=sys.stderr, flush=True)
            not_measured.append(NotMeasured(f"{claim} beside {name}: {reason}"))
            continue
        print(f"{claim} beside {name} ...", file=sys.stderr, flush=True)
        rows: list[Row] = []
        try:
            with Side(settings("ours")) as ours, Side(settings(name)) as peer:
                for row in module.measure(ours, peer, rounds, device):
                    rows.append(row if row.by != FUNCTIONS else replace(row, by=by))
                    low, high = row.spread
                    line = f"{row.name}: {row.ratio:.2f} ({low:.2f} to {high:.2f}) {row.peer_name}"
                    print(line, file=sys.stderr, flush=True)
        except (RuntimeError, AssertionError) as error:
            failure = f"{claim} beside {name} failed: {error}"
            print(failure, file=sys.stderr, flush=True)
            not_measured.append(NotMeasured(failure, is_failure=True))
        else:
            day.add(claim, name, rows)
    return not_measured


def _heading(conditions: dict[str, Any]) -> str:
    data = conditions["data"]
    name = "Multi30k" if data == "multi30k" else "synthetic sentences (HEADWAY_DATA is not set)"
    return (
        f"{processor()}: {machine_kind()}\n"
        f"{name}; {conditions['rounds']} pairs of rounds, threads: {conditions['threads']}; "
        f"allocator: {conditions['allocator']}. ratio > 1: Headway is better"
    )


def _results_path(options: argparse.Namespace, *, is_complete: bool) -> Path:
    """Return the file of the results; quick and partial measurements are not put in results/."""
    if not is_complete or options.quick or options.only or options.peers:
        cache: Path = options.cache
        return cache / "look.json"
    return ROOT / "bench" / "results" / f"{kind() or 'other'}-{today()}.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
