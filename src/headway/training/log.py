"""metrics.jsonl: what happened, one JSON object a line. The truth of a run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from headway.files import write_file
from headway.training.state import Event, StepReport, TrainingState


class MetricsLog:
    """Listener that appends each event to a file.

    On resume, rows after the checkpoint's step are dropped first: those steps will happen again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rewind(self, step: int) -> None:
        """Keep what happened up to `step`. A half-written last line is dropped too."""
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("step", 0) <= step:
                kept.append(line + b"\n")
        write_file(self.path, b"".join(kept))

    def __call__(self, event: Event) -> None:
        row = {**event, "time": round(time.time(), 3)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_metrics(path: Path, kind: str) -> list[Event]:
    """The rows of one kind, in order; a torn last line is passed over."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("kind") == kind:
            rows.append(row)
    return rows


@dataclass
class StepLog:
    """Observer that emits one row every so many steps, with means over them."""

    every: int = 20

    def __post_init__(self) -> None:
        self.reports: list[StepReport] = []

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        self.reports.append(report)
        if run.step % self.every:
            return
        targets = sum(r.targets for r in self.reports)
        run.emit(
            "train",
            epoch=run.epoch,
            loss=sum(r.loss * r.targets for r in self.reports) / targets,
            nats=sum(r.nats * r.targets for r in self.reports) / targets,
            lr=report.lr,
            grad_norm=report.grad_norm,
            targets_per_second=targets / sum(r.seconds for r in self.reports),
            seconds=run.seconds,
        )
        self.reports = []
