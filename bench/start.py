"""How long commands take with tiny models, beyond `import torch`: the start of every verb."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fixtures.bundles import gpt, translator

from bench.commands import HEADWAY, run
from bench.goals import goal
from bench.report import COMMANDS, Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave

BY = COMMANDS
PEERS = ("import_torch",)
SECONDS = 0.7
"""That a command may take beyond `import torch`."""
VERBS: dict[str, tuple[str, ...]] = {
    "generate": ("gpt", "the fox", "--max-tokens", "3"),
    "translate": ("translator", "the fox"),
    "inspect": ("gpt", "the fox"),
    "eval": ("gpt", "text.txt"),
    "train": ("gpt-tiny", "--help"),
    "plan": ("tiny",),
    "config": ("show", "gpt-tiny"),
    "doctor": (),
}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure each verb. The peer is the time that a verb may take."""
    for verb in VERBS:
        pairs = interleave(ours, peer, rounds, verb=verb)
        beyond = [
            (
                {"work": max(0.01, a["whole"] - b["whole"]), "seconds": 1, "whole": a["whole"]},
                {"work": SECONDS, "seconds": 1, "whole": b["whole"]},
            )
            for a, b in pairs
        ]
        title, name = f"start of headway {verb}", f"{SECONDS} s beyond import torch"
        needed = goal("start")
        yield row(title, beyond, "s", name, device, less_is_better=True, goal=needed)


def ours(settings: Settings) -> Worker:
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    gpt().save(folder / "gpt")
    translator().save(folder / "translator")
    (folder / "text.txt").write_text("the fox runs\n", encoding="utf-8")

    def work(question: dict[str, Any]) -> Answer:
        words = [question["verb"], *VERBS[question["verb"]]]
        return run([*HEADWAY, *words], folder).answer(1, 1)

    return work


def import_torch(settings: Settings) -> Worker:
    return lambda _: run([sys.executable, "-c", "import torch"], Path.cwd()).answer(1, 1)
