"""`headway runs`: what has been trained here."""

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
def ls(folder: Path = Path("runs"), /, *, json: bool = False) -> None:
    """List runs, newest first.

    Parameters
    ----------
    folder
        Where the run folders are.
    json
        One JSON object a line.
    """
    places = [path.parent for path in folder.glob("*/run.yaml")] if folder.is_dir() else []
    if not places:
        talk.print(f"no runs in {folder}/ yet. Start one: headway demo")
    for place in sorted(places, key=lambda p: -(p / "run.yaml").stat().st_mtime):
        facts = _summary(place)
        if json:
            data_json(facts)
            continue
        best = "-" if facts["best"] is None else best_of(facts["metric"], facts["best"])
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["changed"]))
        data(
            f"{facts['name']:<28} {facts['recipe']:<20} step {facts['step']:>7,}  {best:<14} {when}"
        )


@runs_app.command
def show(place: Path, /, *, json: bool = False) -> None:
    """Show one run: its state, its evaluations, its configuration.

    Parameters
    ----------
    place
        The run folder.
    json
        One JSON object.
    """
    from headway.config_files import read_yaml
    from headway.training import read_metrics

    if not (place / "run.yaml").is_file():
        raise UsageError(f"{place} is not a run folder", hint="headway runs ls lists them")
    evaluations = read_metrics(place / "metrics.jsonl", "valid")
    if json:
        config = read_yaml(place / "run.yaml")
        data_json({**_summary(place), "evaluations": evaluations, "config": config})
        return
    facts = _summary(place)
    data(f"{facts['name']}  ({facts['recipe']})  step {facts['step']:,}  {facts['state']}")
    for row in evaluations:
        star = "  ★ best so far" if row["is_best"] else ""
        numbers = "  ".join(
            f"{TITLES.get(n, n)} {written(n, v):>5}" for n, v in metrics(row).items()
        )
        data(f"  step {row['step']:>7,}  {numbers}{star}")
    data((place / "run.yaml").read_text(encoding="utf-8").rstrip())


def _summary(place: Path) -> dict[str, Any]:
    from headway.config_files import read_yaml
    from headway.training import read_metrics

    config = read_yaml(place / "run.yaml")
    log = place / "metrics.jsonl"
    metric = config.get("evaluation.metric", "bleu")
    best = [row[metric] for row in read_metrics(log, "valid") if row["is_best"]]
    steps = [row["step"] for row in read_metrics(log, "train")]
    finished = read_metrics(log, "finished")
    return {
        "name": str(place),
        "recipe": config.get("recipe"),
        "step": max([*steps, *(row["step"] for row in finished)], default=0),
        "metric": metric,
        "best": best[-1] if best else None,
        "state": finished[-1]["stop"] if finished else "not finished",
        "changed": (log if log.exists() else place / "run.yaml").stat().st_mtime,
    }
