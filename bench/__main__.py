"""`python -m bench`: speed compared with other libraries, as a table and a JSON file.

Rounds of the two libraries alternate (ours, peer, ours, peer ...), each in its own process. The
ratio is that of neighbouring rounds, so that a slower machine slows both down. The table shows
which ratios are below their goals.

What was measured is kept after each peer: `--resume` goes on with the rows of the same day and
conditions. A peer that fails does not end the others; the exit code is then 1. A file in
bench/results has all rows of one day.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from typing import Any

from bench.report import Row, RowsOfDay, as_json, command_line, table, today
from bench.sentences import source_of_data, trained, write_sentences
from bench.sides import ROOT, Settings, Side
from bench.translation import SENTENCES
from headway.base.files import write_file

CLAIMS = (
    "training",
    "translation",
    "language",
    "generation",
    "decoding",
    "embeddings",
    "encoders",
    "watching",
    "kernels",
    "scores",
    "length",
)
TRANSLATORS = {"training", "translation"}  # claims that need a trained run
WHOLE_MODELS = {
    *TRANSLATORS,
    "language",
    "generation",
    "decoding",
    "embeddings",
    "encoders",
    "watching",
}  # the other claims are single operations
FULL_STEPS, QUICK_STEPS = 600, 60
# Work of one round: training steps, sentences, texts or kernel calls; for `length`, tenths of a
# second per sequence length.
FULL = {
    "training": 20,
    "translation": 1000,
    "language": 6,
    "generation": 1,
    "decoding": 1,
    "embeddings": 1000,
    "encoders": 1,
    "watching": 4,
    "kernels": 40,
    "scores": 20,
    "length": 5,
}
QUICK = {
    "training": 2,
    "translation": 64,
    "language": 1,
    "generation": 1,
    "decoding": 1,
    "embeddings": 200,
    "encoders": 1,
    "watching": 1,
    "kernels": 5,
    "scores": 2,
    "length": 1,
}


@dataclass(frozen=True)
class NotMeasured:
    """What was not measured, and why: a peer is not installed, or a side failed."""

    what: str
    is_failure: bool = False


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rounds = options.rounds or (2 if options.quick else 5)
    claims = options.only or CLAIMS
    folder = options.cache
    if TRANSLATORS & set(claims):
        folder = options.run or _cached(options)
        if not (folder / SENTENCES).is_file():
            write_sentences(folder)
    conditions: dict[str, Any] = {
        "rounds": rounds,
        "threads": options.threads,
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
        missing += _measure(claim, folder, rounds, options, day)
    rows = day.of(claims, options.peers)
    print(_heading(conditions))
    print(table(rows))
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
        help="run folder of a post-norm translation model; if unset, one is trained",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="number of CPU threads of each side",
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
    full: Path = options.cache / f"{source_of_data()}-{FULL_STEPS}"
    brief = options.quick and not (full / SENTENCES).is_file()
    return trained(options.cache, QUICK_STEPS if brief else FULL_STEPS)


def _measure(
    claim: str, folder: Path, rounds: int, options: argparse.Namespace, day: RowsOfDay
) -> list[NotMeasured]:
    """Measure a claim beside each peer, into `day`; return what was not measured, and why."""

    def settings(side: str) -> Settings:
        return Settings(
            claim=claim,
            side=side,
            folder=str(folder),
            threads=options.threads,
            allocator=side == "ours" or claim not in WHOLE_MODELS or options.same_allocator,
            work=(QUICK if options.quick else FULL)[claim],
        )

    module = import_module(f"bench.{claim}")
    if reason := getattr(module, "missing", lambda: None)():
        print(f"{claim} is skipped: {reason}", file=sys.stderr, flush=True)
        return [NotMeasured(f"{claim}: {reason}")]
    device = f"cpu, {options.threads} threads"
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
                    rows.append(row)
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
        f"{name}; {conditions['rounds']} pairs of rounds, {conditions['threads']} threads; "
        f"allocator: {conditions['allocator']}. ratio > 1: Headway is better"
    )


def _results_path(options: argparse.Namespace, *, is_complete: bool) -> Path:
    """Return the file of the results; quick and partial measurements are not put in results/."""
    if not is_complete or options.quick or options.only or options.peers:
        cache: Path = options.cache
        return cache / "look.json"
    return ROOT / "bench" / "results" / f"{today()}.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
