"""The report of a run as one page: its film, curves, samples, settings; and a page of many runs."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headway.base.config_files import read_run_file
from headway.base.errors import UsageError
from headway.base.metrics_file import ASIDE, read_log
from headway.base.settings import flat
from headway.inspection.document import Document
from headway.inspection.page import Encoded, encode, write_page
from headway.runs.attention_over_time import Glimpse, read_film
from headway.runs.film_picture import write_picture
from headway.runs.recipes import AnyRunConfig, beside_recipe, decided_by_machine, recipe, saved
from headway.tasks.registry import owner_of_recipe
from headway.training import Event

PAGE = "report.html"
LEARNED = {"Loss": ("loss", "nats")}
PACED = {
    "Learning rate": ("lr",),
    "Gradient norm": ("grad_norm",),
    "Throughput in targets per second": ("targets_per_second",),
}
"""Titles of plots -> the keys of the training events that they show, after the held-out ones."""
INPUTS = ("prompt", "source", "language")


def report_of(run: Path) -> Encoded:
    """The header and blocks of the report of a run, finished or not.

    UsageError if the folder is not a run.
    """
    events, config, film = _log(run), saved(run), read_film(run)
    report: dict[str, object] = {
        "film": _film(film.glimpses),
        "curves": [
            *_training_curves(events.get("train", []), LEARNED),
            *_held_out_curves(events.get("valid", [])),
            *_training_curves(events.get("train", []), PACED),
        ],
        "samples": _samples(events.get("sample", [])),
        "changed": _changed(config),
        "config": flat(config),
        "data": _last_event(events.get("plan", [])),
        "result": _last_event(events.get("finished", [])),
    }
    page = encode(Document(title=f"Training of {run.name}", frames=[]), report=report)
    frames = [glimpse.frame for glimpse in film.glimpses]
    return Encoded({**page.header, "frames": frames}, film.blocks)


def _log(run: Path) -> dict[str, list[Event]]:
    """The events of a run by kind. UsageError if the folder is not a run."""
    metrics = run / "metrics.jsonl"
    if not metrics.is_file():
        raise UsageError(
            f"{run} is not a run folder: it has no metrics.jsonl",
            hint="headway runs ls lists all runs",
        )
    return read_log(metrics)


def write_report(run: Path) -> Path:
    """Write `report.html` in the run folder; an older one is replaced."""
    write_page(run / PAGE, report_of(run), overwrite=True)
    return run / PAGE


def _film(glimpses: Sequence[Glimpse]) -> dict[str, object] | None:
    """What the page shows beside the frames of a film; None if nothing moves."""
    if len(glimpses) < 2:
        return None
    first = glimpses[0]
    return {
        **{"input": first.given, "reference": first.reference},
        "steps": [glimpse.step for glimpse in glimpses],
        "losses": [_finite(glimpse.loss) for glimpse in glimpses],
    }


def _changed(config: AnyRunConfig) -> list[list[object]]:
    """Settings that differ from the recipe, with both values; not what data and machine decide."""
    base = recipe(config.recipe)
    decided = base.decided_by_data | decided_by_machine(base)
    return [
        [name, usual, value] for name, usual, value in beside_recipe(config) if name not in decided
    ]


def write_film(run: Path, path: Path) -> int:
    """Write the film of a run as an animated image; return its size in bytes."""
    _log(run)  # UsageError for a folder that is no run
    return write_picture(path, read_film(run), f"Training of {run.name}")


def _points(rows: Iterable[Event], key: str) -> list[tuple[int, float]]:
    return [
        (row["step"], row[key])
        for row in rows
        if isinstance(row.get(key), int | float) and math.isfinite(row[key])
    ]


def _line(name: str, rows: Iterable[Event], key: str) -> dict[str, object]:
    points = _points(rows, key)
    return {"name": name, "steps": [x for x, _ in points], "values": [y for _, y in points]}


def _training_curves(
    rows: list[Event], titles: Mapping[str, tuple[str, ...]]
) -> list[dict[str, object]]:
    plots = {title: [_line(key, rows, key) for key in keys] for title, keys in titles.items()}
    return [
        {"title": title, "lines": lines}
        for title, lines in plots.items()
        if any(line["steps"] for line in lines)
    ]


def _held_out_curves(rows: list[Event]) -> list[dict[str, object]]:
    """A plot for each metric of the evaluations."""
    names = dict.fromkeys(name for row in rows for name in row if name not in ASIDE)
    return [{"title": f"Held out: {name}", "lines": [_line(name, rows, name)]} for name in names]


def _samples(rows: list[Event]) -> list[dict[str, Any]]:
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


@dataclass(frozen=True)
class Listed:
    """One row of the page of all runs. best: the best value of the run's metric, as text."""

    run: Path
    recipe: str
    step: int
    best: str
    state: str


def runs_report(rows: Sequence[Listed], beside: Path) -> Encoded:
    """The header and blocks of a page of runs: results, curves, what differs, last samples.

    Curves and settings are compared among the runs of a task: those of other tasks have other
    settings, and losses of other units.

    beside: the folder of the page, for its links to the reports of the runs.
    """
    logs = {row.run: read_log(row.run / "metrics.jsonl") for row in rows}
    tasks = {row.run: _task(row.recipe) for row in rows}
    groups = {
        task: [run for run, other in tasks.items() if other == task] for task in tasks.values()
    }
    report = {
        "tables": [
            {
                "title": "Results",
                "columns": ["Run", "Task", "Recipe", "Step", "Best", "State"],
                "rows": [
                    [
                        _link(row.run, beside),
                        tasks[row.run],
                        row.recipe,
                        row.step,
                        row.best,
                        row.state,
                    ]
                    for row in rows
                ],
            },
            *(_differing(task, runs) for task, runs in groups.items()),
            _last_samples(logs),
        ],
        "curves": [
            curve
            for task, runs in groups.items()
            for curve in _curves_of_runs(task, {run: logs[run] for run in runs})
        ],
    }
    title = f"{len(rows)} runs" if len(rows) != 1 else "1 run"
    return encode(Document(title=title, frames=[]), report=report)


def _task(recipe: str) -> str:
    """The task of a recipe in words; the recipe, if its task is not known."""
    return (owner_of_recipe(recipe) or recipe).replace("_", " ")


def _link(run: Path, beside: Path) -> object:
    """The name of a run, which is a link if it has a report."""
    page = run / PAGE
    address = quote(os.path.relpath(page, beside).replace(os.sep, "/"))
    return {"text": run.name, "href": address} if page.is_file() else run.name


def _differing(task: str, runs: Sequence[Path]) -> dict[str, object]:
    """A table of the settings that differ between runs of a task; a column for each run."""
    configs = [read_run_file(run) for run in runs]
    names = dict.fromkeys(name for config in configs for name in config)
    rows = [[name, *(config.get(name) for config in configs)] for name in names]
    return {
        "title": f"Settings that differ: {task}",
        "columns": ["Setting", *(run.name for run in runs)],
        "rows": [row for row in rows if any(value != row[1] for value in row[2:])],
    }


def _curves_of_runs(
    task: str, logs: Mapping[Path, Mapping[str, list[Event]]]
) -> list[dict[str, object]]:
    """A plot of the loss and of each metric, with a line for each run of a task that has it."""
    valid = {run: events.get("valid", []) for run, events in logs.items()}
    names = dict.fromkeys(
        name for rows in valid.values() for row in rows for name in row if name not in ASIDE
    )
    plots = {
        f"{task}, held out: {name}": [_line(run.name, valid[run], name) for run in logs]
        for name in names
    }
    plots[f"{task}, loss"] = [
        _line(run.name, events.get("train", []), "loss") for run, events in logs.items()
    ]
    return [
        {"title": title, "lines": [line for line in lines if line["steps"]]}
        for title, lines in plots.items()
        if any(line["steps"] for line in lines)
    ]


def _last_samples(logs: Mapping[Path, Mapping[str, list[Event]]]) -> dict[str, object]:
    """A table of the samples of the last evaluation of each run."""
    rows = []
    for run, events in logs.items():
        for moment in _samples(events.get("sample", []))[-1:]:
            for item in moment["items"]:
                rows.append([run.name, item["input"], item["output"], item["reference"] or ""])
    return {
        "title": "Last samples",
        "columns": ["Run", "Input", "Output", "Reference"],
        "rows": rows,
    }
