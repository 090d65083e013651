"""`headway runs`: lists runs and shows one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.config_files import RUN_FILE, read_run_file
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import Event, read_log
from headway.cli.flags import TEXT, PrintFlags
from headway.terminal.console import data, data_json, one_line, say, talk
from headway.terminal.numbers import TITLES, best_of, metrics, written


def ls(folder: Path | None = None, /, *, flags: PrintFlags = TEXT) -> None:
    """List runs, newest first.

    Parameters
    ----------
    folder
        Folder that contains the run folders. If unset, runs.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError("no such folder", str(folder), "check the path")
    folder = folder or Path("runs")
    folders = [path.parent for path in folder.glob("*/run.yaml")]
    if not folders:
        talk.print(f"no runs in {folder}/ yet. Start one: headway demo")
    for run in sorted(folders, key=lambda path: -(path / RUN_FILE).stat().st_mtime):
        try:
            summary = _summary(run, read_run_file(run), read_log(run / "metrics.jsonl"))
        except DataError as error:
            say(f"left out  {one_line(str(run))}: {error.what}")
            continue
        if flags.json:
            data_json(vars(summary))
            continue
        best = "-" if summary.best is None else best_of(summary.metric, summary.best)
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.changed))
        state = f"step {summary.step:>7,}  {best:<14} {when}"
        data(f"{one_line(summary.name):<28} {summary.recipe:<20} {state}")


def show(run: Path, /, *, flags: PrintFlags = TEXT) -> None:
    """Show the state, the evaluations and the configuration of one run.

    Parameters
    ----------
    run
        A run folder.
    """
    config, events = read_run_file(run), read_log(run / "metrics.jsonl")
    summary, evaluations = _summary(run, config, events), events.get("valid", [])
    if flags.json:
        data_json({**vars(summary), "evaluations": evaluations, "config": config})
        return
    state = f"step {summary.step:,}  {summary.state}"
    data(f"{one_line(summary.name)}  ({summary.recipe})  {state}")
    for row in evaluations:
        star = "  ★ best so far" if row.get("is_best") else ""
        numbers = "  ".join(
            f"{TITLES.get(n, n)} {written(n, v):>5}" for n, v in metrics(row).items()
        )
        data(f"  step {row['step']:>7,}  {numbers}{star}")
    data((run / RUN_FILE).read_text(encoding="utf-8").rstrip())


@dataclass(frozen=True)
class _Summary:
    """The state of a run. changed: when its log was last written, in seconds since 1970."""

    name: str
    recipe: object
    step: int
    metric: str
    best: float | None
    state: str
    changed: float


def _summary(
    run: Path, config: Mapping[str, object], events: Mapping[str, Sequence[Event]]
) -> _Summary:
    """The state of a run. config: its run.yaml. events: those of its log by kind."""
    log = run / "metrics.jsonl"
    metric = str(config.get("evaluation.metric", "bleu"))
    best = [
        row[metric]
        for row in events.get("valid", [])
        if row.get("is_best") and isinstance(row.get(metric), int | float)
    ]
    steps = [row["step"] for row in events.get("train", [])]
    finished = events.get("finished", [])
    return _Summary(
        name=str(run),
        recipe=config["recipe"],
        step=max([*steps, *(row["step"] for row in finished)], default=0),
        metric=metric,
        best=best[-1] if best else None,
        state=str(finished[-1].get("stop")) if finished else "not finished",
        changed=(log if log.exists() else run / RUN_FILE).stat().st_mtime,
    )
