"""`python -m bench.gpu`: speed on a GPU, beside what the GPU itself can do and beside other code.

Training (bfloat16 mixed precision, AdamW, sequences of 1,024 tokens, random weights) is stated as
model FLOP utilisation: the FLOPs that the model needs (`headway.models.cost`), divided by those of
large bfloat16 matrix products measured in the same run. Generation (bfloat16) is stated as a share
of the tokens per second at which the measured memory bandwidth could read the weights and the keys
and values. Both are also compared with `transformers` and with a plain compiled loop
(`bench/plain_gpt.py`), in alternating rounds of one process.

A side that fails is named with its error and does not stop the others. Without a GPU there are no
figures: the exit code is 2. `--dry-run` runs everything on the CPU with tiny sizes, to see that it
runs; its figures mean nothing and are not kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from bench.gpu_decoding import decoding, translating
from bench.gpu_rounds import Measurement
from bench.gpu_scale import DRY, Limit, Run, Scale, is_without_gpu, limit
from bench.gpu_training import training
from bench.report import as_json, table, today
from bench.sides import ROOT
from headway.base.files import write_file

CLAIMS = (
    "decoding-xl",
    "translating",
    "training-350m",
    "training-124m",
    "decoding-124m",
    "training-350m-few",
    "training-mini",
)


def measure(
    scale: Scale,
    claims: Sequence[str],
    seconds: float,
    keep: Callable[[Measurement, Limit], None] = lambda found, rates: None,
) -> tuple[Measurement, Limit]:
    """Measure these claims until the time is over. keep: called after each of them."""
    measurement = Measurement(scale, seconds)
    rates = limit(scale)
    work: dict[str, Run] = {
        "training-124m": lambda: training(measurement, rates, "gpt2-small", scale.rows, 0.5),
        "training-350m": lambda: training(measurement, rates, "gpt2-medium", scale.rows, 0.55),
        "training-350m-few": lambda: training(
            measurement, rates, "gpt2-medium", scale.few_rows, None
        ),
        "training-mini": lambda: training(measurement, rates, "mini", scale.few_rows, None),
        "decoding-124m": lambda: decoding(measurement, rates, "gpt2-small", {}),
        "decoding-xl": lambda: decoding(measurement, rates, "gpt2-xl", {1: 0.4}),
        "translating": lambda: translating(measurement, rates, (1, 4)),
    }
    # compiled functions are called all the same, as they are, so that a dry run finds wrong calls
    stance = nullcontext() if scale.compiled else torch.compiler.set_stance("force_eager")
    with stance:
        for claim in claims:
            if measurement.is_over:
                measurement.failures[claim] = "not measured: the time was over"
                continue
            with measurement.kept_going(claim):
                work[claim]()
            keep(measurement, rates)
    return measurement, rates


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    if not options.dry_run and is_without_gpu():
        return 2
    scale = DRY if options.dry_run else Scale()
    scale = replace(scale, without=tuple(options.without))
    chosen = {"rounds": options.rounds, "rows": options.rows}
    scale = replace(scale, **{name: n for name, n in chosen.items() if n is not None})
    path = options.output or ROOT / "bench" / "results" / f"gpu-{today()}.json"

    def keep(found: Measurement, rates: Limit) -> None:
        """Write what was measured so far: a run may be stopped before it ends."""
        if not options.dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, _results(path, found, rates, arguments).encode())

    found, rates = measure(scale, options.only or CLAIMS, 60 * options.minutes, keep)
    print(
        f"{found.device}: {rates.matrix_rate / 1e12:,.4g} TFLOP/s in bfloat16 matrix products, "
        f"{rates.bandwidth / 1e12:,.4g} TB/s in a copy. Beside the device, the ratio is the share "
        "of what it allows."
    )
    print(table(found.rows))
    for name, error in found.failures.items():
        print(f"{name}: {error.strip().splitlines()[-1]}")
    if options.dry_run:
        print("A dry run: these figures mean nothing.")
        return 1 if found.failures else 0
    keep(found, rates)
    print(f"written to {path.name}")
    return 0


def _results(path: Path, found: Measurement, rates: Limit, arguments: Sequence[str]) -> str:
    """Return the content of the file of results, with the rows that an earlier call of this day
    measured on the same device and this one did not."""
    earlier: dict[str, Any] = {}
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
    conditions = {**asdict(rates), "device": found.device, "failures": found.failures}
    command = " ".join(["python", "-m", "bench.gpu", *arguments])
    results = json.loads(as_json(found.rows, command, conditions))
    if earlier.get("conditions", {}).get("device") == found.device:
        names = {(row["name"], row["peer_name"]) for row in results["rows"]}
        kept = [r for r in earlier["rows"] if (r["name"], r["peer_name"]) not in names]
        results["rows"] = kept + results["rows"]
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU; no figures")
    parser.add_argument("--only", nargs="+", choices=CLAIMS, help="measure these claims only")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        metavar="PART",
        help="leave out the sides whose names contain one of these, such as float8",
    )
    parser.add_argument(
        "--rows", type=int, help="sequences of a training batch of GPT-2 (default 32)"
    )
    parser.add_argument("--rounds", type=int, help="alternating rounds of each side (default 5)")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="time after which no other side is begun"
    )
    parser.add_argument("--output", type=Path, help="file of results (default bench/results/)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
