"""Numbers as text: the metrics of a run, sizes, durations, and tables of them."""

from collections.abc import Sequence

from headway.base.metrics_file import Event

TITLES = {"bleu": "BLEU", "chrf": "chrF", "cider": "CIDEr-D"}
UNSHOWN = {"took", "seconds", "time"}


def metrics(event: Event) -> dict[str, float]:
    """The metrics of a `valid` event, in order."""
    return {
        name: value
        for name, value in event.items()
        if isinstance(value, float) and name not in UNSHOWN
    }


def written(name: str, value: float) -> str:
    """A metric as text: scores from 0 to 100 (CIDEr-D: 10) with two decimals, others with three."""
    return f"{value:.2f}" if name in TITLES else f"{value:.3f}"


def best_of(metric: str, value: float) -> str:
    """The metric that selects the best model, with its usual name: BLEU 39.11, nats 1.400."""
    return f"{TITLES.get(metric, metric)} {written(metric, value)}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines of text: the first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def gigabytes(size: int) -> str:
    """A number of bytes in GB."""
    return f"{size / 1e9:,.2f}" if size < 1e11 else f"{size / 1e9:,.0f}"


def short_number(number: float) -> str:
    """A number of parameters as 175 B or 1542 M."""
    millions = number / 1e6
    return f"{millions:g} M" if number < 1.6e9 else f"{number / 1e9:g} B"


def time_span(seconds: float) -> str:
    """A duration in days, hours, minutes or seconds, whichever suits its length."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} seconds"
