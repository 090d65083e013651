"""`headway translate` with a small trained translator, beside the scripts of other libraries.

Both sides are commands: they start, load the same weights and translate the same sentences, beam 4.
The peers' are the scripts of `bench.peers`, with a folder that `headway export` wrote. The speed is
that of the sentences after the first `CHUNK`, with tokenizing and printing; the time of the whole
command is stated beside it.

The libraries end a search differently: Headway when no other output can be better at any length,
transformers earlier. With --early-stopping both have transformers' rule and length penalty.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.commands import HEADWAY, Ran, run
from bench.goals import goal
from bench.report import COMMANDS, Row, row
from bench.sentences import SENTENCES
from bench.sides import ATTENTION, Answer, Settings, Side, Worker, fastest, interleave
from headway.cli.inputs import CHUNK

BY = COMMANDS
PEERS = ("transformers", "ctranslate2")
REQUIRES = {"transformers": ("transformers",), "ctranslate2": ("ctranslate2",)}
FLAGS: dict[str, tuple[str, ...]] = {
    "headway translate": (),
    "headway translate --early-stopping": ("--early-stopping", "--normalisation", "average"),
}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure the command with its defaults, and with transformers' rules."""
    name = peer.name.rpartition(", ")[2]
    chosen: dict[str, Any] = {}
    if name == "transformers":
        chosen = fastest(peer, ATTENTION, warm_up=False)
    for title, flags in FLAGS.items():
        pairs = interleave(ours, peer, rounds, flags=flags, **chosen)
        ours_text, peer_text = (answer["texts"] for answer in pairs[0])
        equal = sum(a == b for a, b in zip(ours_text, peer_text, strict=True)) / len(ours_text)
        words = sum(len(text.split()) for text in ours_text) / len(ours_text)
        note = f"equal translations: {equal:.1%}; {words:.1f} words each"
        peer_name = f"{name} ({', '.join(chosen.values())})" if chosen else name
        needed = goal("translate") if name == "transformers" else None
        yield row(title, pairs, "sentences/s", peer_name, device, goal=needed, note=note)


def ours(settings: Settings) -> Worker:
    run_folder = Path(settings.folder)

    def work(question: dict[str, Any]) -> Answer:
        words = [*HEADWAY, "translate", str(run_folder), *question["flags"]]
        return _answer(run(words, run_folder, read=_sentences(settings)))

    return work


def transformers(settings: Settings) -> Worker:
    return _script(settings, "transformers", "hf")


def ctranslate2(settings: Settings) -> Worker:
    return _script(settings, "ctranslate2", "ctranslate2")


def _script(settings: Settings, library: str, form: str) -> Worker:
    """The peer's script, with the folder to which Headway has exported the model."""
    exported = Path(settings.folder) / form
    if not exported.exists():
        run([*HEADWAY, "export", settings.folder, "--to", form], Path(settings.folder))

    def work(question: dict[str, Any]) -> Answer:
        options = [question["attention"]] if "attention" in question else []
        script = [sys.executable, "-m", "bench.peers", f"translate-{library}"]
        words = [*script, str(exported), str(CHUNK), *options]
        return _answer(run(words, exported, read=_sentences(settings)))

    return work


def _sentences(settings: Settings) -> Path:
    """Return a file of `settings.work` sentences."""
    folder = Path(settings.folder)
    path = folder / f"{settings.work}-{SENTENCES}"
    if not path.exists():
        lines = (folder / SENTENCES).read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(islice(lines, settings.work)), encoding="utf-8")
    return path


def _answer(ran: Ran) -> Answer:
    """The speed is that of the lines after the first chunk."""
    times = [second for second, part in ran.parts for _ in range(part.count("\n"))]
    work, seconds = len(times) - CHUNK, times[-1] - times[CHUNK - 1]
    return ran.answer(work, seconds, texts=ran.text.splitlines())
