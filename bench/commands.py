"""Commands as a user types them: how long they take, their memory, and when they print what."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench.sides import Answer, environment
from headway.base.metrics_file import read_metrics

HEADWAY = (sys.executable, "-m", "headway")
STEPS = 20
"""A run logs its speed after so many steps. The first ones warm it up, and are not counted."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended. parts: what it printed, each part with the seconds since the start.
    cpu_seconds, megabytes: of the process, the largest resident set."""

    parts: list[tuple[float, str]]
    seconds: float
    cpu_seconds: float
    megabytes: float

    @property
    def text(self) -> str:
        return "".join(part for _, part in self.parts)

    @property
    def cost(self) -> dict[str, float]:
        return {"cpu_seconds": self.cpu_seconds, "wall_seconds": self.seconds}

    def answer(self, work: float, seconds: float, **more: Any) -> Answer:
        """Return the answer of a side: its steady speed, and the cost of the whole command."""
        cost = {"whole": self.seconds, "megabytes": self.megabytes}
        return {"work": work, "seconds": seconds, **cost, **more}


def run(
    words: Sequence[str], folder: Path, *, read: Path | None = None, log: Path | None = None
) -> Ran:
    """Run a command in a folder. read: its standard input. log: a new file for its messages.

    RuntimeError, with its last messages, if it fails.
    """
    with (
        tempfile.TemporaryDirectory() as temporary,
        open(read or os.devnull, "rb") as given,
        open(log or Path(temporary, "log"), "w+b") as messages,
    ):
        began, parts = time.perf_counter(), []
        process = subprocess.Popen(
            list(words),
            cwd=folder,
            env=environment(),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=messages,
        )
        assert process.stdout is not None
        with process.stdout as output:
            while part := os.read(output.fileno(), 2**16):
                parts.append((time.perf_counter() - began, part.decode(errors="replace")))
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            messages.seek(0)
            last = messages.read().decode(errors="replace").strip().split("\n")[-5:]
            command = " ".join(Path(word).name for word in words)
            raise RuntimeError(f"{command} ended with {process.returncode}: " + "\n".join(last))
    cpu = usage.ru_utime + usage.ru_stime
    return Ran(parts, seconds, cpu, usage.ru_maxrss / 1024)


def train(words: Sequence[str], steps: int, run_folder: Path) -> Answer:
    """Run `headway train` with these words; the speed is that of its metrics.jsonl.

    run_folder: the new folder of the run, in a folder "runs".
    """
    named = ["--steps", str(steps), "--run", run_folder.name]
    ran = run([*HEADWAY, "train", *words, *named], run_folder.parent.parent)
    events = read_metrics(run_folder / "metrics.jsonl", "train")
    return ran.answer(steady([event["targets_per_second"] for event in events]), 1.0)


def print_rates(updates: Iterable[int], steps: int) -> None:
    """Print the targets per second of every `STEPS` updates, up to `steps`, as a run logs them.

    updates: the number of targets of each update, when it is done.
    """
    targets, began = 0, time.perf_counter()
    for number, count in enumerate(islice(updates, steps), start=1):
        targets += count
        if number % STEPS == 0:
            now = time.perf_counter()
            print(targets / (now - began), flush=True)
            targets, began = 0, now


def steady(rates: Sequence[float]) -> float:
    """Return the usual rate of a run: the median of those after the first `STEPS` steps."""
    if len(rates) < 2:
        raise RuntimeError(f"a run needs at least {2 * STEPS} steps for a steady speed")
    after = sorted(rates[1:])
    return (after[(len(after) - 1) // 2] + after[len(after) // 2]) / 2
