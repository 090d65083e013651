"""The report of a run as one page: curves, samples and attention during training, settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError
from headway.base.metrics_file import read_log
from headway.base.settings import flat
from headway.inspection.document import Document
from headway.inspection.page import Encoded, encode, write_page
from headway.runs.attention_over_time import read_attention_snapshots
from headway.runs.recipes import saved
from headway.training import Event

PAGE = "report.html"
LEARNED: dict[str, tuple[str, ...]] = {
    "Loss": ("loss", "nats"),
    "Learning rate": ("lr",),
    "Gradient norm": ("grad_norm",),
    "Throughput in targets per second": ("targets_per_second",),
}
"""Title of a plot -> the keys of the training events that it shows."""
ASIDE = {"kind", "step", "epoch", "time", "seconds", "took", "is_best"}
INPUTS = ("prompt", "source", "language")


def report_of(run: Path) -> Encoded:
    """The header and blocks of the report of a run, finished or not.

    UsageError if the folder is not a run.
    """
    metrics = run / "metrics.jsonl"
    if not metrics.is_file():
        raise UsageError(
            f"{run} is not a run folder: it has no metrics.jsonl",
            hint="headway runs ls lists all runs",
        )
    events = read_log(metrics)
    report: dict[str, object] = {
        "curves": [
            *_training_curves(events.get("train", [])),
            *_held_out_curves(events.get("valid", [])),
        ],
        "samples": _samples(events.get("sample", [])),
        "config": flat(saved(run)),
        "data": _last_event(events.get("plan", [])),
        "result": _last_event(events.get("finished", [])),
    }
    frames, blocks = read_attention_snapshots(run)
    page = encode(Document(title=f"Training of {run.name}", frames=[]), report=report)
    return Encoded({**page.header, "frames": frames}, blocks)


def write_report(run: Path) -> Path:
    """Write `report.html` in the run folder; an older one is replaced."""
    write_page(run / PAGE, report_of(run), overwrite=True)
    return run / PAGE


def _line(name: str, rows: Iterable[Event], key: str) -> dict[str, object]:
    points = [
        (row["step"], row[key])
        for row in rows
        if isinstance(row.get(key), int | float) and math.isfinite(row[key])
    ]
    return {"name": name, "steps": [x for x, _ in points], "values": [y for _, y in points]}


def _training_curves(rows: list[Event]) -> list[dict[str, object]]:
    plots = {title: [_line(key, rows, key) for key in keys] for title, keys in LEARNED.items()}
    return [
        {"title": title, "lines": lines}
        for title, lines in plots.items()
        if any(line["steps"] for line in lines)
    ]


def _held_out_curves(rows: list[Event]) -> list[dict[str, object]]:
    """A plot for each metric of the evaluations."""
    names = dict.fromkeys(name for row in rows for name in row if name not in ASIDE)
    return [{"title": f"Held out: {name}", "lines": [_line(name, rows, name)]} for name in names]


def _samples(rows: list[Event]) -> list[dict[str, object]]:
    """The samples of each step: input, output and reference."""
    steps: dict[int, list[dict[str, object]]] = {}
    for row in rows:
        text = " · ".join(str(row[name]) for name in INPUTS if row.get(name))
        item = {"input": text, "output": row.get("output", ""), "reference": row.get("reference")}
        steps.setdefault(row["step"], []).append(item)
    return [{"step": step, "items": items} for step, items in sorted(steps.items())]


def _finite(value: object) -> Any:
    """A value of an event; None for NaN and infinity, which a page cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _last_event(rows: list[Event]) -> Mapping[str, object]:
    last = rows[-1] if rows else {}
    values = {name: _finite(value) for name, value in last.items() if name not in ASIDE}
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in values.items()
        if value is not None
    }
