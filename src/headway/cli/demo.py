"""`headway demo`: from nothing to a translator trained before your eyes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from headway.cli.console import program, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.train import run_training

SHOWN = 5


def demo(*, target: str = "fr", machine: MachineFlags = ON_THIS_MACHINE) -> None:
    """Train a small translator, evaluate it and look inside it, in minutes.

    Three minutes on two cores. Run again, it reuses what is there.

    Parameters
    ----------
    target
        The other language: ar de es fa fr id it ja ko pt ru tr zh.
    """
    from headway.cli.check import describe
    from headway.data.fetch import fetch_emoji_names
    from headway.runs import recipe

    started = time.monotonic()
    folder = Path("runs") / f"demo-{target}"
    talk.rule(f"1  data: what emoji are called, in English and in {target!r}")
    fetched = fetch_emoji_names(target, Path("data") / f"emoji-names-en-{target}")
    talk.print(describe(fetched), markup=False)
    talk.rule("2  training")
    flags = {
        "data.train": str(fetched.folder),
        "data.source": "en",
        "data.target": target,
        **{f"machine.{name}": value for name, value in machine.settings.items()},
    }
    outcome = run_training(recipe("emoji-names", ("headway demo", flags)), folder)
    if outcome.stop == "interrupted":
        talk.print(f"saved     {program()} demo goes on from here")
        raise SystemExit(130)
    _measure(folder, fetched.folder, target)
    talk.rule("5  what next")
    us = program()
    talk.print(
        f'{us} translate {folder} "red heart"            a name of your own\n'
        f'{us} translate {folder} --align --nbest 3 "red heart"\n'
        f'{us} ui {folder} "red heart"                     look inside it, live\n'
        f"{us} runs show {folder}                       its evaluations and settings\n"
        f"{us} data check FILE.tsv --source en --target de        look at your own data\n"
        f"{us} train translate FILE.tsv --source en --target de   and learn from it\n"
        "Bigger: Multi30k or Tatoeba sentence pairs as TSV; docs/results.md says what to expect.",
        markup=False,
    )
    talk.print(f"done in {time.monotonic() - started:.0f} s")


def _measure(folder: Path, pairs_folder: Path, target: str) -> None:
    """Scores on held-out names, five of them side by side, one alignment."""
    from headway.data.formats import read_lines
    from headway.evaluation import score_translations
    from headway.inspection import align, heat_map
    from headway.tasks.opening import load

    rows = [line.split("\t") for line in read_lines(pairs_folder / "test.tsv")][1:]
    bundle: Any = load(folder)  # a translator
    outputs = bundle.translate([row[1] for row in rows], beam=4)
    scores = score_translations(outputs, [row[2] for row in rows])
    talk.rule(f"3  {scores.sentences} held-out names, beam 4")
    talk.print(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}", markup=False)
    talk.print(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}", markup=False)
    # Spread over the test set, so that not all five are one emoji in five skin tones.
    for i in range(0, len(rows), max(1, len(rows) // SHOWN))[:SHOWN]:
        emoji, source, reference = rows[i]
        mark = "=" if outputs[i] == reference else "≠"
        talk.print(f"{emoji}  source     {source}", markup=False)
        talk.print(f"    reference  {reference}\n  {mark} output     {outputs[i]}", markup=False)
    talk.rule("4  attention: which English words each word looks at")
    chosen = max(range(len(rows)), key=lambda i: _fit_to_show(rows[i][1], outputs[i], rows[i][2]))
    aligned = align(bundle, rows[chosen][1], outputs[chosen])
    talk.print(f"{rows[chosen][1]}  →  {outputs[chosen]}", markup=False)
    talk.print(heat_map(aligned.target, aligned.source, aligned.weights.tolist()), markup=False)


def _fit_to_show(source: str, output: str, reference: str) -> tuple[bool, int]:
    """Right, and long enough to have something to see, but not too long for a screen."""
    words = len(source.split())
    return output == reference, words if words <= 7 else 0
