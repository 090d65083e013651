"""The report of a comparison: Markdown to read, JSON for programs, SVG to look at."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headway.comparisons.compare import Comparison, Measured
from headway.evaluation.scores import Metric
from headway.files import write_file
from headway.inspection.plots import line_plot
from headway.tasks.task import Comparing

LOSSES = ("nats", "loss")  # of which one is drawn by steps, if it is logged


def write_report(comparison: Comparison, folder: Path, command: str, machine: str) -> None:
    """report.md, report.json and pictures in `folder`, each durably; older ones are replaced."""
    plots = _plots(comparison, folder) if comparison.measured else []
    facts = {
        "title": comparison.plan.title,
        "recipe": comparison.plan.recipe,
        "command": command,
        "machine": machine,
        "complete": not comparison.interrupted and not comparison.failed,
        "runs": [asdict(run) for run in comparison.measured],
        "failed": comparison.failed,
    }
    write_file(folder / "report.json", (json.dumps(facts, ensure_ascii=False) + "\n").encode())
    task = comparison.task
    parts = [
        f"# {comparison.plan.title}",
        f"`{command}`, on {machine}.",
        _state(comparison),
        table(comparison),
        *(
            task.comparison_tables(_details(comparison))
            if comparison.measured and isinstance(task, Comparing)
            else []
        ),
        *(f"![{title}]({name})" for title, name in plots),
    ]
    write_file(folder / "report.md", ("\n\n".join(p for p in parts if p) + "\n").encode())


def _state(comparison: Comparison) -> str:
    lines = [
        f"- {name} failed: {' '.join(error.split())}" for name, error in comparison.failed.items()
    ]
    if comparison.interrupted:
        lines.append("- Interrupted: the same command goes on where it stopped.")
    return "\n".join(lines)


def _details(comparison: Comparison) -> dict[str, list[Mapping[str, Any]]]:
    return {name: [run.details for run in runs] for name, runs in comparison.by_variant().items()}


def table(comparison: Comparison) -> str:
    """One line for each variant, with all metrics; over several seeds mean and standard deviation.
    The best value of a metric is bold."""
    if not comparison.measured:
        return "No run is finished yet."
    variants, metrics = comparison.by_variant(), comparison.metrics()
    headings = ["variant", "parameters", *metrics, "steps", "targets/s", "minutes"]
    lines = [
        "| " + " | ".join(headings) + " |",
        "|---" + "|--:" * (len(headings) - 1) + "|",
    ]
    columns = [_column(metric, variants) for metric in metrics.values()]
    for name, runs in variants.items():
        cells = [
            name,
            f"{runs[0].parameters / 1e6:.2f} M",
            *(column[name] for column in columns),
            _spread([run.steps for run in runs], ",.0f"),
            _spread([run.targets_per_second for run in runs], ",.0f"),
            _spread([run.seconds / 60 for run in runs], ".1f"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _legend(comparison)])


def _column(metric: Metric, variants: Mapping[str, Sequence[Measured]]) -> dict[str, str]:
    """Name of a variant -> its value of the metric; "-" if its models have none."""
    values = {
        name: [each.value for run in runs for each in run.metrics if each.name == metric.name]
        for name, runs in variants.items()
    }
    means = {name: statistics.fmean(own) for name, own in values.items() if own}
    best = (max if metric.higher_is_better else min)(means.values())
    cells = {}
    for name, own in values.items():
        cell = _spread(own, _form(metric)) if own else "-"
        cells[name] = f"**{cell}**" if means.get(name) == best else cell
    return cells


def _form(metric: Metric) -> str:
    """Scores from 0 to 100, such as BLEU, with two places; everything else with three."""
    return ".2f" if metric.signature else ".3f"


def _spread(values: Sequence[int | float], form: str) -> str:
    """Mean, and over several seeds the standard deviation."""
    text = format(statistics.fmean(values), form)
    return text if len(values) < 2 else f"{text} ± {format(statistics.stdev(values), form)}"


def _legend(comparison: Comparison) -> str:
    """On how much was evaluated, which way is better, and how metrics with a name are computed."""
    counts = comparison.measured[0].counts
    metrics = comparison.metrics().values()
    lower = [metric.name for metric in metrics if not metric.higher_is_better]
    parts = []
    if counts:
        shown = (f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        parts.append(f"Evaluated on {', '.join(shown)}.")
    if lower:
        parts.append(f"Lower is better: {', '.join(lower)}.")
    parts += [
        f"{metric.name}: `{metric.signature.replace('|', ' ')}`."
        for metric in metrics
        if metric.signature
    ]
    return " ".join(parts)


def _plots(comparison: Comparison, folder: Path) -> list[tuple[str, str]]:
    """Draw what there is: (title, file name)."""
    title, one = comparison.plan.title, comparison.measured[0]
    logged = one.validations[-1]
    drawn = []
    primary = one.metrics[0].name
    if primary in logged:
        line_plot(
            folder / f"{primary}.svg",
            _curves(comparison, primary, lambda row: row["seconds"] / 60),
            title=f"{title}: validation {primary}",
            x_label="minutes of training",
            y_label=primary,
        )
        drawn.append((f"{primary} by time", f"{primary}.svg"))
    loss = next((name for name in LOSSES if name in logged), None)
    if loss is not None:
        line_plot(
            folder / "loss-by-step.svg",
            _curves(comparison, loss, lambda row: row["step"]),
            title=f"{title}: validation {loss}",
            x_label="steps",
            y_label=loss,
        )
        drawn.append((f"{loss} by step", "loss-by-step.svg"))
    if isinstance(comparison.task, Comparing):
        drawn += comparison.task.comparison_plots(_details(comparison), folder, title)
    return drawn


def _curves(
    comparison: Comparison, metric: str, x: Callable[[Mapping[str, float]], float]
) -> dict[str, list[tuple[float, float]]]:
    """A line for each run: a number of its validations."""
    is_one_seed = len(comparison.plan.seeds) == 1
    return {
        run.variant if is_one_seed else run.name: [(x(row), row[metric]) for row in run.validations]
        for run in comparison.measured
    }
