"""The curve of a few-shot measurement: the primary metric over the number of examples."""

from collections.abc import Sequence
from pathlib import Path

from headway.suites.measuring import Result


def curve(path: Path, results: Sequence[Result]) -> None:
    """Draw the primary metric of each suite over the number of examples in the prompt, and its
    chance level."""
    from headway.inspection.plots import line_plot

    series: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        firsts = [(entry.shots, entry.metrics[0]) for entry in result.measurements if entry.metrics]
        if not firsts:  # no row has a label
            continue
        series[f"{result.suite}, {firsts[0][1].name}"] = [
            (float(shots), metric.value) for shots, metric in firsts
        ]
        chances = [
            (float(shots), metric.chance) for shots, metric in firsts if metric.chance is not None
        ]
        if chances and len({chance for _, chance in chances}) == 1:
            series[f"chance, {chances[0][1]:.2f}"] = chances
    line_plot(
        path,
        series,
        title="Examples in the prompt",
        x_label="solved examples before the question",
        y_label="score",
    )
