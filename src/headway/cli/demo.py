"""`headway demo`: trains and evaluates a small translation model in minutes."""

import time
from pathlib import Path
from typing import Any

from headway.base.settings import setting
from headway.cli.data import say_fetched
from headway.cli.flags import as_flags
from headway.cli.machine import MachineFlags
from headway.data.formats.lines import read_lines
from headway.datasets.fetch import fetch_emoji_names
from headway.evaluation import score_translations
from headway.inspection import align, heat_map
from headway.runs import recipe
from headway.tasks.opening import load
from headway.terminal.console import program, say, talk
from headway.terminal.training import train_on_screen

SHOWN = 5
NEXT = (
    ("watch how it learned", "report {run} --open"),
    ("inspect its attention, live", 'ui {run} "red heart"'),
    ("translate another name", 'translate {run} "red heart"'),
    ("show its evaluations and settings", "runs show {run}"),
    ("check your own data", "data check FILE.tsv --source en --target de"),
    ("and train on it", "train translate FILE.tsv --source en --target de"),
)
"""The commands at the end of the demo, with what they do."""


@as_flags
class DemoFlags(MachineFlags):
    target: str = setting("fr", "Target language: ar de es fa fr id it ja ko pt ru tr zh.")


def demo(*, flags: DemoFlags = DemoFlags()) -> None:
    """Train a small translation model, evaluate it and show its attention.

    Takes three minutes on two CPU cores. A second call reuses the data and the model.
    """
    started = time.monotonic()
    folder = Path("runs") / f"demo-{flags.target}"
    talk.rule(f"1  data: names of emoji in English and {flags.target!r}")
    fetched = fetch_emoji_names(flags.target, Path("data") / f"emoji-names-en-{flags.target}")
    say_fetched(fetched)
    talk.rule("2  training")
    settings = {
        "data.train": str(fetched.folder),
        "data.source": "en",
        "data.target": flags.target,
        **{f"machine.{name}": value for name, value in flags.settings.items()},
    }
    outcome = train_on_screen(recipe("emoji-names", ("headway demo", settings)), folder)
    if outcome.stop == "interrupted":
        talk.print(f"saved     resume with: {program()} demo --target {flags.target}")
        raise SystemExit(130)
    _measure(folder, fetched.folder)
    talk.rule("5  next steps")
    us = program()
    for title, command in NEXT:
        talk.print(f"[dim]{title}[/]")
        talk.print(f"   {us} {command.format(run=folder)}", style="bold", markup=False)
    say("Larger data: Multi30k or Tatoeba sentence pairs as TSV; docs/results.md has the scores.")
    talk.print(f"done in {time.monotonic() - started:.0f} s")


def _measure(folder: Path, pairs_folder: Path) -> None:
    """Print scores on held-out names, five examples, and one alignment."""
    rows = [line.split("\t") for line in read_lines(pairs_folder / "test.tsv")][1:]
    bundle: Any = load(folder)  # a translator
    outputs = bundle.translate([row[1] for row in rows], beam=4)
    scores = score_translations(outputs, [row[2] for row in rows])
    talk.rule(f"3  {scores.sentences} held-out names, beam 4")
    say(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}")
    say(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}")
    # Spread over the test set, so that not all five are one emoji in five skin tones.
    for i in range(0, len(rows), max(1, len(rows) // SHOWN))[:SHOWN]:
        emoji, source, reference = rows[i]
        is_right = outputs[i] == reference
        say(f"{emoji}  source     {source}")
        say(f"    reference  {reference}")
        talk.print(f"  {'=' if is_right else '≠'} output    ", end=" ")
        talk.print(outputs[i], style="green" if is_right else "yellow", markup=False)
    talk.rule("4  attention from each output word to the English words")
    chosen = max(range(len(rows)), key=lambda i: _fit_to_show(rows[i][1], outputs[i], rows[i][2]))
    aligned = align(bundle, rows[chosen][1], outputs[chosen])
    say(f"{rows[chosen][1]}  →  {outputs[chosen]}")
    say(heat_map(aligned.target, aligned.source, aligned.weights.tolist()))


def _fit_to_show(source: str, output: str, reference: str) -> tuple[bool, int]:
    """A sort key that prefers correct outputs with many source words, but at most 7."""
    words = len(source.split())
    return output == reference, words if words <= 7 else 0
