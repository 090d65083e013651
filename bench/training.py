"""`headway train`, with its defaults, beside the shortest loop of transformers.

A round is one command on each side. Headway's prepares its data and trains; the peers' loops
(`bench.marian_training`, `bench.budget`) read the data that it prepared, in the same batches, with
a model of the same size. The speed is that of the steps after the first ones, as metrics.jsonl has
it. The peer has the dtype and the attention with which it is fastest here. Memory is the largest
resident set of the process.

On a GPU, GPT-2 of 124 M and 350 M parameters is trained as well, with the text and the flags of a
user, beside the matrix rate of the device.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bench.commands import run, steady, train
from bench.goals import goal, kind
from bench.report import COMMANDS, Row, row
from bench.sides import ATTENTION, Answer, Settings, Side, Worker, fastest, interleave
from headway.base.devices import multiplies_bfloat16, select_device

BY = COMMANDS
STEPS_ON_GPU = 10
"""Times as many steps on a GPU."""


@dataclass(frozen=True)
class Case:
    """What is trained beside a peer. loop: the module of the peer's loop."""

    goal: str
    name: str
    recipe: str
    loop: str


PEERS = {
    "marian": Case("train a translator", "transformers MarianMT", "translate", "marian_training"),
    "gpt2": Case("train a language model", "transformers GPT-2", "gpt", "budget"),
    "device": Case("", "the device", "gpt", ""),
}
REQUIRES = {"marian": ("transformers",), "gpt2": ("transformers",)}
SIZES = ("", "base", "big")
"""Sizes of translators that are trained on a GPU; "" is the recipe's own. Only base has a goal."""
GPTS = {"gpt2-small": "124 M", "gpt2-medium": "350 M"}


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure the recipe beside the peer; on a GPU all sizes."""
    name = peer.name.rpartition(", ")[2]
    case, on_gpu = PEERS[name], kind() == "gpu"
    if name == "device":
        if on_gpu:
            yield from _beside_the_device(ours, peer, rounds, device)
        return
    for size in SIZES if case.recipe == "translate" and on_gpu else ("",):
        question = {"recipe": case.recipe, "model": size}
        first = ours.ask(**question)
        beside = {"run": first["run"], "loop": case.loop}
        choice = fastest(peer, _choices(case), warm_up=False, **beside)
        pairs = interleave(ours, peer, rounds, warm_up=False, **question, **beside, **choice)
        title = f"headway train {case.recipe}" + (f" --model {size}" if size else "")
        note = f"ours in {first['dtype']}"
        peer_name = f"{case.name} ({', '.join(choice.values())})"
        needed = goal(case.goal) if size == "base" or not on_gpu else None
        yield row(title, pairs, "target tokens/s", peer_name, device, goal=needed, note=note)
        if not on_gpu:
            memory = [
                tuple({"work": a["megabytes"], "seconds": 1.0} for a in pair) for pair in pairs
            ]
            title, needed = f"{title}, memory", goal("memory of training")
            yield row(title, memory, "MB", peer_name, device, less_is_better=True, goal=needed)


def _choices(case: Case) -> list[dict[str, str]]:
    """Return the settings that a user of the peer would try."""
    has_bfloat16 = multiplies_bfloat16(select_device())
    dtypes = ["float32", *(["bfloat16"] if has_bfloat16 else [])]
    attentions: list[dict[str, Any]] = [*ATTENTION] if case.recipe == "translate" else [{}]
    return [{"dtype": dtype, **attention} for dtype in dtypes for attention in attentions]


def _beside_the_device(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Compare the training of GPT-2 with the tokens per second that the matrix rate allows."""
    for size, name in GPTS.items():
        answers = [ours.ask(recipe="gpt", model=size) for _ in range(rounds + 1)][1:]
        allowed = peer.ask()["matrix_rate"] / answers[0]["flops"]
        pairs = [(answer, {"work": allowed, "seconds": 1.0}) for answer in answers]
        needed = goal(f"part of the matrix rate, {name}")
        title = f"headway train gpt --model {size}"
        yield row(title, pairs, "tokens/s", PEERS["device"].name, device, goal=needed)


def ours(settings: Settings) -> Worker:
    """Headway: one command a round. The first run of each question stays, for the peer's loop."""
    from bench.sentences import text_file, translation_words
    from headway.models.cost import training_flops
    from headway.runs import saved
    from headway.tasks.language_modeling.config import LanguageRunConfig

    folder, numbers = Path(tempfile.mkdtemp(prefix="headway-bench-")), count()
    kept: dict[str, Path] = {}

    def work(question: dict[str, Any]) -> Answer:
        recipe, size = question["recipe"], question["model"]
        words = translation_words(folder) if recipe == "translate" else [recipe, text_file(folder)]
        made = folder / "runs" / f"run-{next(numbers)}"
        model = ("--model", size) if size else ()
        answer = train([*words, *model], _steps(settings), made)
        config = saved(made)
        first = kept.setdefault(f"{recipe} {size}", made)
        if first != made:
            shutil.rmtree(made)
        about: dict[str, Any] = {"run": str(first), "dtype": config.machine.dtype}
        if isinstance(config, LanguageRunConfig):
            about["flops"] = training_flops(config.model, config.training.length)
        return {**answer, **about}

    return work


def _steps(settings: Settings) -> int:
    return settings.work * (STEPS_ON_GPU if kind() == "gpu" else 1)


def _loop(settings: Settings) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        chosen = [
            f"--{name}={question[name]}" for name in ("dtype", "attention") if name in question
        ]
        steps = f"--steps={_steps(settings)}"
        words = ["-m", f"bench.{question['loop']}", question["run"], steps, *chosen]
        ran = run([sys.executable, *words], Path(question["run"]))
        return ran.answer(steady([float(rate) for rate in ran.text.split()]), 1.0)

    return work


marian = gpt2 = _loop


def device(settings: Settings) -> Worker:
    """The FLOPs per second of the device's matrix products."""
    from bench.gpu_scale import Scale, limit

    rate = limit(Scale()).matrix_rate if kind() == "gpu" else 0.0
    return lambda question: {"matrix_rate": rate}
