"""A tiny run of every task, for what must hold for all of them. A new task is one entry here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.command_line import headway
from tests.fixtures.tiny_encoder import sentences
from tests.safety_net.cases import (
    CASES,
    FINE_TUNING,
    HELD_OUT,
    HF_ENCODER,
    LOOP,
    Case,
    with_prerequisites,
    words,
)
from tests.safety_net.tiny_data import write_all


@dataclass(frozen=True)
class TaskCase:
    """case: a run of the safety net. inspected: the input of `headway inspect`; empty if the model
    has no attention. exports: whether Hugging Face has such models. one_class: a few lines of
    examples whose labels are all the same, where there must be two. more: flags with which
    Hugging Face can represent the model."""

    case: str
    inspected: tuple[str, ...]
    exports: bool = True
    more: tuple[str, ...] = ()
    one_class: str | None = None


EVERY: dict[str, TaskCase] = {
    "translation": TaskCase("translate", ("the fox sees the lemon",)),
    "language_modeling": TaskCase("gpt-tiny", ("The fox",)),
    "chat": TaskCase("chat", ("The fox",)),
    "preference": TaskCase("prefer", ("The fox",)),
    "reward": TaskCase("reward", ("The fox",)),
    "seeing": TaskCase("see", ("The fox",), exports=False),
    "masked_language_modeling": TaskCase(HF_ENCODER, ("The [MASK] sees .",)),
    "classification": TaskCase(
        "classify",
        ("the toad is at home",),
        one_class="text\tlabel\n" + "a toad\tx\na rake\tx\n" * 9,
        more=words("--model.pooling first"),
    ),
    "tagging": TaskCase(
        "tag", ("in the lake Zoë waits .",), one_class="a\tO\nlake\tO\n\nby\tO\n\n" * 9
    ),
    "question_answering": TaskCase("answer", ("who is there ?", "Zoë waits here")),
    "sentence_embedding": TaskCase("embed", ("the toad is at home",)),
    "distillation": TaskCase(
        "distil-tag", ("in the lake Zoë waits .",), one_class="a\tO\nlake\tO\n\nby\tO\n\n" * 9
    ),
    "image_classification": TaskCase(
        "vision", ("dark.png",), more=words("--model.positions learned --model.pooling first")
    ),
    "self_distillation": TaskCase("dino", ("dark.png",), more=words("--model.positions learned")),
    "captioning": TaskCase(
        "caption",
        ("dark.png",),
        more=words(
            "--model.vit.positions learned --model.vit.model-dim 32 --model.vit.num-heads 4"
        ),
    ),
    "transcription": TaskCase("speech", ("sounds/low/3.wav",)),
    "word_vectors": TaskCase("words", (), exports=False),
    "word_regression": TaskCase("rate", ("in the lake Zoë waits .",), exports=False),
}
"""Name of a task -> a tiny run of it."""
OUTSIDE = ("word_regression",)
"""Tasks that packages in `examples/` add."""
NUMBERS = "numbers.jsonl"
RATE = (*words(f"{NUMBERS} --from runs/bert-tiny"), *HELD_OUT, *FINE_TUNING, *LOOP)
RUNS = {
    **CASES,
    "rate": Case("rate", RATE, (), ("rate", "{run}", "in the lake", "--json"), ("bert-tiny",)),
}

STARTS = {"bert-tiny": HF_ENCODER}
FOLDERS: dict[str, Path] = {}
TRAINED: dict[str, Path] = {}
"""Run that others start from -> where it is; it is copied into the folder of each task."""


def task_folder(name: str, make: Callable[[str], Path]) -> Path:
    """Return the folder with the run of the task and all that it starts from, trained once."""
    if name not in FOLDERS:
        folder = make(name)
        write_all(folder)
        rows = ({"words": s.split(), "numbers": [len(w) for w in s.split()]} for s in sentences())
        (folder / NUMBERS).write_text("".join(json.dumps(row) + "\n" for row in rows))
        before = with_prerequisites(RUNS[EVERY[name].case].after)
        for case in with_prerequisites(STARTS.get(case, case) for case in before):
            if case in TRAINED:
                shutil.copytree(TRAINED[case], folder / "runs" / case)
            else:
                train(folder, case, case)
                TRAINED[case] = folder / "runs" / case
        train(folder, EVERY[name].case, EVERY[name].case)
        FOLDERS[name] = folder
    return FOLDERS[name]


def arguments(case: str) -> list[str]:
    """Return the arguments of `headway train`, starting from a model that Hugging Face has too."""
    starts = {f"runs/{name}": f"runs/{replacement}" for name, replacement in STARTS.items()}
    more = [word for task in EVERY.values() if task.case == case for word in task.more]
    return [*(starts.get(word, word) for word in RUNS[case].train), *more]


def command(case: str, data: str | None = None) -> list[str]:
    """Return the `headway train` command of a case of the safety net, on `data` if it is set."""
    default, *rest = arguments(case)
    return ["train", RUNS[case].recipe, data or default, *rest]


def train(folder: Path, case: str, run: str, *more: str) -> None:
    """Train a case with `run` as the name of the run."""
    headway(*command(case), "--run", run, "--quiet", *more, cwd=folder)
