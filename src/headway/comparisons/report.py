"""The report of a comparison in Markdown and JSON, with plots in SVG."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from headway.base.files import write_file
from headway.comparisons.compare import Comparison, Measured
from headway.evaluation.scores import Metric
from headway.inspection.plots import line_plot

LOSSES = ("nats", "loss")  # the first of them in the log is plotted by step


def write_report(comparison: Comparison, folder: Path, command: str, machine: str) -> None:
    """Write report.md, report.json and plots in `folder`; older ones are replaced."""
    plots = _plots(comparison, folder) if comparison.measured else []
    report = {
        "title": comparison.plan.title,
        "recipe": comparison.plan.recipe,
        "command": command,
        "machine": machine,
        "complete": not comparison.interrupted and not comparison.failed,
        "runs": [asdict(run) for run in comparison.measured],
        "failed": comparison.failed,
    }
    write_file(folder / "report.json", (json.dumps(report, ensure_ascii=False) + "\n").encode())
    compares = comparison.task.compares
    parts = [
        f"# {comparison.plan.title}",
        f"`{command}`, on {machine}.",
        _state(comparison),
        table(comparison),
        *(
            compares.tables(_details(comparison))
            if comparison.measured and compares is not None
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
        lines.append("- Interrupted: the same command resumes the comparison.")
    return "\n".join(lines)


def _details(comparison: Comparison) -> dict[str, list[Mapping[str, object]]]:
    return {name: [run.details for run in runs] for name, runs in comparison.by_variant().items()}


def table(comparison: Comparison) -> str:
    """A Markdown table with a line for each variant and a column for each metric.

    Several seeds are shown as mean and standard deviation. The best value of a metric is bold.
    """
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
    """The cells of a metric by name of the variant; "-" if the variant does not have it."""
    values = {
        name: [result.value for run in runs for result in run.metrics if result.name == metric.name]
        for name, runs in variants.items()
    }
    means = {name: statistics.fmean(numbers) for name, numbers in values.items() if numbers}
    best = (max if metric.higher_is_better else min)(means.values())
    cells = {}
    for name, numbers in values.items():
        cell = _spread(numbers, _form(metric)) if numbers else "-"
        cells[name] = f"**{cell}**" if means.get(name) == best else cell
    return cells


def _form(metric: Metric) -> str:
    """The format of a metric: two decimals for scores from 0 to 100, such as BLEU, else three."""
    return ".2f" if metric.signature else ".3f"


def _spread(values: Sequence[int | float], form: str) -> str:
    """The mean of the values, and their standard deviation if there are several."""
    text = format(statistics.fmean(values), form)
    return text if len(values) < 2 else f"{text} ± {format(statistics.stdev(values), form)}"


def _legend(comparison: Comparison) -> str:
    """The number of evaluated examples, metrics for which lower is better, and their signatures."""
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
    """Draw the plots of a comparison, and return (title, file name) of each."""
    title, first = comparison.plan.title, comparison.measured[0]
    logged = first.validations[-1]
    drawn = []
    primary = first.metrics[0].name
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
    if comparison.task.compares is not None:
        drawn += comparison.task.compares.plots(_details(comparison), folder, title)
    return drawn


def _curves(
    comparison: Comparison, metric: str, x: Callable[[Mapping[str, float]], float]
) -> dict[str, list[tuple[float, float]]]:
    """A curve for each run: a metric of its evaluations during training."""
    is_one_seed = len(comparison.plan.seeds) == 1
    return {
        run.variant if is_one_seed else run.name: [(x(row), row[metric]) for row in run.validations]
        for run in comparison.measured
    }
