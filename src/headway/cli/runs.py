"""`headway runs`: lists runs and shows one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cyclopts import App

from headway.cli.console import data, data_json, talk
from headway.cli.numbers import TITLES, best_of, metrics, written
from headway.errors import UsageError

runs_app = App(name="runs", help="List the runs in a folder, or show one.")


@runs_app.command
def ls(folder: Path | None = None, /, *, json: bool = False) -> None:
    """List runs, newest first.

    Parameters
    ----------
    folder
        Folder that contains the run folders. If unset, runs.
    json
        Print one JSON object per line.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError("no such folder", str(folder), "check the path")
    folder = folder or Path("runs")
    folders = [path.parent for path in folder.glob("*/run.yaml")]
    if not folders:
        talk.print(f"no runs in {folder}/ yet. Start one: headway demo")
    for run in sorted(folders, key=lambda path: -(path / "run.yaml").stat().st_mtime):
        summary = _summary(run)
        if json:
            data_json(summary)
            continue
        best = "-" if summary["best"] is None else best_of(summary["metric"], summary["best"])
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary["changed"]))
        state = f"step {summary['step']:>7,}  {best:<14} {when}"
        data(f"{summary['name']:<28} {summary['recipe']:<20} {state}")


@runs_app.command
def show(run: Path, /, *, json: bool = False) -> None:
    """Show the state, the evaluations and the configuration of one run.

    Parameters
    ----------
    run
        A run folder.
    json
        Print one JSON object.
    """
    from headway.config_files import read_yaml
    from headway.metrics_file import read_metrics

    if not (run / "run.yaml").is_file():
        raise UsageError(
            f"{run} is not a run folder: it has no run.yaml", hint="headway runs ls lists all runs"
        )
    evaluations = read_metrics(run / "metrics.jsonl", "valid")
    if json:
        config = read_yaml(run / "run.yaml")
        data_json({**_summary(run), "evaluations": evaluations, "config": config})
        return
    summary = _summary(run)
    data(f"{summary['name']}  ({summary['recipe']})  step {summary['step']:,}  {summary['state']}")
    for row in evaluations:
        star = "  ★ best so far" if row["is_best"] else ""
        numbers = "  ".join(
            f"{TITLES.get(n, n)} {written(n, v):>5}" for n, v in metrics(row).items()
        )
        data(f"  step {row['step']:>7,}  {numbers}{star}")
    data((run / "run.yaml").read_text(encoding="utf-8").rstrip())


def _summary(run: Path) -> dict[str, Any]:
    from headway.config_files import read_yaml
    from headway.metrics_file import read_metrics

    config = read_yaml(run / "run.yaml")
    log = run / "metrics.jsonl"
    metric = config.get("evaluation.metric", "bleu")
    best = [row[metric] for row in read_metrics(log, "valid") if row["is_best"]]
    steps = [row["step"] for row in read_metrics(log, "train")]
    finished = read_metrics(log, "finished")
    return {
        "name": str(run),
        "recipe": config.get("recipe"),
        "step": max([*steps, *(row["step"] for row in finished)], default=0),
        "metric": metric,
        "best": best[-1] if best else None,
        "state": finished[-1]["stop"] if finished else "not finished",
        "changed": (log if log.exists() else run / "run.yaml").stat().st_mtime,
    }
