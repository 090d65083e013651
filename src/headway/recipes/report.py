"""The report of a comparison: Markdown to read, JSON for programs, SVG to look at."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headway.files import write_file
from headway.inspection.plots import Panel, attention_pictures, grouped_bars, line_plot
from headway.recipes.compare import Comparison, Measured


def write_report(found: Comparison, folder: Path, command: str, machine: str) -> None:
    """report.md, report.json and pictures in `folder`, each durably; older ones are replaced."""
    pictures = _pictures(found, folder) if found.measured else []
    facts = {
        "title": found.plan.title,
        "recipe": found.plan.recipe,
        "command": command,
        "machine": machine,
        "complete": not found.interrupted and not found.failed,
        "runs": [asdict(run) for run in found.measured],
        "failed": found.failed,
    }
    write_file(folder / "report.json", (json.dumps(facts, ensure_ascii=False) + "\n").encode())
    parts = [
        f"# {found.plan.title}",
        f"`{command}`, on {machine}.",
        _state(found),
        table(found),
        *(_length_table(found) if found.measured else []),
        *(_entropy_table(found) if found.measured else []),
        *(f"![{title}]({name})" for title, name in pictures),
    ]
    write_file(folder / "report.md", ("\n\n".join(p for p in parts if p) + "\n").encode())


def _state(found: Comparison) -> str:
    lines = [f"- {name} failed: {' '.join(error.split())}" for name, error in found.failed.items()]
    if found.interrupted:
        lines.append("- Interrupted: the same command goes on where it stopped.")
    return "\n".join(lines)


def _by_variant(found: Comparison) -> dict[str, list[Measured]]:
    return {
        variant.name: runs
        for variant in found.plan.variants
        if (runs := [run for run in found.measured if run.variant == variant.name])
    }


def _spread(values: Sequence[int | float], form: str) -> str:
    """Mean, and over several seeds the standard deviation."""
    text = format(statistics.fmean(values), form)
    return text if len(values) < 2 else f"{text} ± {format(statistics.stdev(values), form)}"


def table(found: Comparison) -> str:
    """One line a variant; over several seeds mean and standard deviation."""
    if not found.measured:
        return "No run is finished yet."
    one = found.measured[0]
    lines = [
        "| variant | parameters | BLEU | chrF | valid. nats | steps | target tokens/s | minutes |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in _by_variant(found).items():
        cells = [
            name,
            f"{runs[0].parameters / 1e6:.2f} M",
            _spread([run.bleu for run in runs], ".2f"),
            _spread([run.chrf for run in runs], ".2f"),
            _spread([run.nats for run in runs], ".3f"),
            _spread([run.steps for run in runs], ",.0f"),
            _spread([run.targets_per_second for run in runs], ",.0f"),
            _spread([run.seconds / 60 for run in runs], ".1f"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"BLEU on {one.sentences:,} sentences, `{one.signature.replace('|', ' ')}`; "]
    lines[-1] += "validation nats a target token at the kept step."
    return "\n".join(lines)


def _groups(found: Comparison) -> list[str]:
    return [
        f"{low}" if low == high else f"{low}-{high}" for low, high, _ in found.measured[0].by_length
    ]


def _length_bleu(runs: Sequence[Measured]) -> list[float]:
    """BLEU of each length group, mean over seeds (all runs have the same test sentences)."""
    groups = zip(*(run.by_length for run in runs), strict=True)
    return [statistics.fmean(bleu for _, _, bleu in group) for group in groups]


def _length_table(found: Comparison) -> list[str]:
    names = _groups(found)
    lines = [
        "| BLEU at source words | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for name, runs in _by_variant(found).items():
        lines.append(f"| {name} | " + " | ".join(f"{b:.1f}" for b in _length_bleu(runs)) + " |")
    return ["\n".join(lines)]


KINDS = {
    "encoder": "encoder, self",
    "decoder": "decoder, self",
    "cross": "cross",
}


def _kind(layer: str) -> str:
    return KINDS["cross" if layer.endswith(".cross") else layer.split(".")[0]]


def _entropy_table(found: Comparison) -> list[str]:
    """Mean entropy of attention, layer by layer from the first: what depth does to it."""
    lines = [
        "| attention entropy / log keys, by layer | " + " | ".join(KINDS.values()) + " |",
        "|---" * (len(KINDS) + 1) + "|",
    ]
    for name, runs in _by_variant(found).items():
        cells = []
        for kind in KINDS.values():
            layers = [layer for layer in runs[0].entropies if _kind(layer) == kind]
            means = [statistics.fmean(run.entropies[layer] for run in runs) for layer in layers]
            cells.append(" ".join(f"{mean:.2f}" for mean in means) or "-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return ["\n".join(lines)]


def _pictures(found: Comparison, folder: Path) -> list[tuple[str, str]]:
    """Draw what there is: (title, file name)."""
    by_variant = _by_variant(found)
    curves: dict[str, list[tuple[float, float]]] = {}
    nats: dict[str, list[tuple[float, float]]] = {}
    for run in found.measured:
        name = run.variant if len(found.plan.seeds) == 1 else run.name
        curves[name] = [(seconds / 60, bleu) for seconds, _, _, bleu in run.curve]
        nats[name] = [(float(step), nat) for _, step, nat, _ in run.curve]
    title = found.plan.title
    drawn = [("BLEU by time", "bleu.svg"), ("Loss by step", "loss.svg")]
    line_plot(
        folder / "bleu.svg",
        curves,
        title=f"{title}: validation BLEU",
        x_label="minutes of training",
        y_label="BLEU",
    )
    line_plot(
        folder / "loss.svg",
        nats,
        title=f"{title}: validation loss",
        x_label="steps",
        y_label="nats a target token",
    )
    grouped_bars(
        folder / "lengths.svg",
        _groups(found),
        {name: _length_bleu(runs) for name, runs in by_variant.items()},
        title=f"{title}: BLEU by sentence length",
        x_label="source words",
        y_label="BLEU",
    )
    drawn.append(("BLEU by sentence length", "lengths.svg"))
    for i in range(max(len(run.alignments) for run in found.measured)):
        panels = [
            _panel(name, runs[0].alignments[i])
            for name, runs in by_variant.items()
            if len(runs[0].alignments) > i
        ]
        attention_pictures(folder / f"alignment-{i + 1}.svg", panels[:12], title="alignment")
        drawn.append((f"Alignment of sentence {i + 1}", f"alignment-{i + 1}.svg"))
    return drawn


def _panel(name: str, alignment: dict[str, Any]) -> Panel:
    return Panel(name, alignment["target"], alignment["source"], alignment["weights"])
