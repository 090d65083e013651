"""`headway runs`: lists runs and shows one; `headway report`: the report of a training run as
one HTML page, and its film as an image."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated

from headway.base.config_files import RUN_FILE, read_run_file
from headway.base.errors import DataError, UsageError
from headway.base.files import check_new_file
from headway.base.metrics_file import Event, read_log
from headway.base.settings import setting
from headway.cli.flags import OUTPUT, TEXT, PrintFlags, as_flags
from headway.terminal.console import data, data_json, on_output, one_line, say, talk
from headway.terminal.numbers import TITLES, best_of, metrics, written


@as_flags
class ListFlags(PrintFlags):
    page: Path | None = setting(
        None, "New HTML file: curves, results, samples of all runs, and the settings that differ."
    )


def ls(folder: Path | None = None, /, *, flags: ListFlags = ListFlags()) -> None:
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
    summaries = []
    for run in sorted(folders, key=lambda path: -(path / RUN_FILE).stat().st_mtime):
        try:
            summaries.append(_summary(run, read_run_file(run), read_log(run / "metrics.jsonl")))
        except DataError as error:
            say(f"left out  {one_line(str(run))}: {error.what}")
    if flags.page is not None:
        _write_page(flags.page, summaries)
    elif flags.json:
        for summary in summaries:
            data_json(vars(summary))
    elif summaries:
        _print_table([_cells(summary) for summary in summaries])


HEADINGS = ("run", "step", "best", "changed", "recipe")


def _cells(summary: _Summary) -> tuple[str, ...]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.changed))
    step = f"{summary.step:,}"
    return (one_line(summary.name), step, _best(summary), when, str(summary.recipe))


def _best(summary: _Summary) -> str:
    return "-" if summary.best is None else best_of(summary.metric, summary.best)


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows: on a terminal with headings and as many columns as fit, else all columns."""
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    out = on_output()
    room = out.width if out.is_terminal else sum(widths) + 2 * len(widths)
    ends = [sum(widths[:at]) + 2 * (at - 1) for at in range(1, len(widths) + 1)]
    count = max(1, len(list(takewhile(lambda end: end <= room, ends))))

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if name == "step" else cell.ljust(width)
            for name, cell, width in zip(HEADINGS, cells, widths, strict=True)
        ]
        return "  ".join(padded[:count]).rstrip()

    if out.is_terminal:
        data(line(HEADINGS))
    for cells in rows:
        data(line(cells))


def _write_page(path: Path, summaries: Sequence[_Summary]) -> None:
    """Write the page of these runs. UsageError if there are none, or if the file exists."""
    from headway.inspection.page import write_page  # these import torch, and a list needs none
    from headway.runs.report import Listed, runs_report

    check_new_file(path)
    if not summaries:
        raise UsageError("there are no runs to show", str(path), "headway demo trains one")
    listed = [
        Listed(Path(one.name), str(one.recipe), one.step, _best(one), one.state)
        for one in summaries
    ]
    write_page(path, runs_report(listed, path.parent))
    say(f"written   {path}: open it in a browser")


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


@as_flags
class ReportFlags:
    output: Annotated[Path | None, OUTPUT] = setting(
        None,
        "New file: .html for the report, .webp, .gif or .png for the film as an animated image. "
        "If unset, report.html in the run folder, which is replaced.",
    )
    open: bool = setting(False, "Open the file in the browser.")


def report(run: Path, /, *, flags: ReportFlags = ReportFlags()) -> None:
    """Write the report of a run: its film, curves, samples, settings.

    The film shows how the model learned: loss, output and attention for one held-out example, at
    about 40 moments of the training. The page needs no network. Training writes the report at its
    end; this command writes it again, also during training.

    headway report runs/demo-fr --open
    headway report runs/demo-fr -o film.webp

    Parameters
    ----------
    run
        A run folder.
    """
    from headway.inspection.page import write_page  # these import torch, and the help needs none
    from headway.runs.film_picture import check_picture
    from headway.runs.report import report_of, write_film, write_report

    path = flags.output
    if path is None:
        path = write_report(run)
    elif path.suffix.lower() == ".html":
        write_page(path, report_of(run))
    else:
        check_new_file(path)
        check_picture(path)
        write_film(run, path)
    say(f"written   {path}  {path.stat().st_size / 1e6:.1f} MB: open it in a browser")
    if flags.open:
        webbrowser.open(path.resolve().as_uri())
