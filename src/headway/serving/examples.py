"""Inputs that the page of the server offers: the held-out samples that the run logged."""

from pathlib import Path

from headway.base.metrics_file import read_metrics

METRICS = "metrics.jsonl"
MOST, LONGEST = 5, 200  # samples, characters


def examples_of(run: str | Path) -> tuple[str, ...]:
    """Return up to 5 held-out inputs of a run: sources of a translator, prompts of a language
    model; none for a folder without a log, and for inputs that are no texts."""
    texts: dict[str, None] = {}
    for event in reversed(read_metrics(Path(run) / METRICS, "sample")):
        text = event.get("source") or event.get("prompt")
        if isinstance(text, str) and text.strip() and len(text) <= LONGEST:
            texts[text] = None
    return (*texts,)[:MOST]
