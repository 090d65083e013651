"""metrics.jsonl: writes the log of a run, one JSON object per line.

`headway.base.metrics_file` reads it.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from headway.base.files import cannot_write, flush_folder, write_file
from headway.base.metrics_file import Event, events
from headway.training.state import StepReport, TrainingState


class MetricsLog:
    """Listener that appends each event to a file, one line per event.

    On resume, lines after the checkpoint's step are removed first, because those steps are
    repeated.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rewind(self, step: int, evaluated: int) -> None:
        """Remove events after `step` and evaluations after step `evaluated`: they are repeated.

        A partially written last line is removed too.
        """
        if not self.path.exists():
            return
        retained = []
        for line, event in events(self.path):
            last = evaluated if event.get("kind") in EVALUATIONS else step
            if event.get("step", 0) <= last:
                retained.append(line + b"\n")
        write_file(self.path, b"".join(retained))

    def __call__(self, event: Event) -> None:
        """Append an event. Raises HeadwayError if it cannot be written."""
        row = {**event, "time": round(time.time(), 3)}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def flush(self) -> None:
        """Flush the log to disk: a checkpoint that survives a power failure needs its history."""
        try:
            with self.path.open("ab") as file:
                os.fsync(file.fileno())
            flush_folder(self.path.parent)
        except OSError as error:
            raise cannot_write(self.path, error) from error


EVALUATIONS = {"valid", "sample"}
"""The kinds of events that an evaluation writes."""


@dataclass
class StepLog:
    """Observer that emits one event every `every` steps, with means over these steps."""

    every: int = 20

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        sums = run.unlogged
        for name, value in (
            ("loss", report.loss * report.targets),
            ("nats", report.nats * report.targets),
            ("targets", report.targets),
            ("seconds", report.seconds),
        ):
            sums[name] = sums.get(name, 0.0) + value
        if run.step % self.every:
            return
        run.unlogged = {}
        run.emit(
            "train",
            epoch=run.epoch,
            loss=sums["loss"] / sums["targets"],
            nats=sums["nats"] / sums["targets"],
            lr=report.lr,
            grad_norm=report.grad_norm,
            targets_per_second=sums["targets"] / sums["seconds"],
            seconds=run.seconds,
        )
