"""`headway train RECIPE DATA` with its defaults, beside the best settings that are found by hand.

By hand means: the number of threads and the dtype on a CPU, the dtype and CUDA graphs on a GPU. The
same command with each of them is tried once; the fastest is measured beside the defaults, in
alternating rounds. The data are those of $HEADWAY_DATA.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

from bench.commands import train
from bench.embeddings import encoder_folder
from bench.goals import goal, kind
from bench.report import COMMANDS, Row, row
from bench.sides import Answer, Settings, Side, Worker, fastest, interleave
from headway.base.devices import multiplies_bfloat16, select_device

BY = COMMANDS
WIKITEXT = "lm/wikitext2.valid_as_train.raw.txt.gz"
RECIPES: dict[str, tuple[str, ...]] = {
    "translate-multi30k": (),
    "span-corruption": (WIKITEXT,),
    "gpt": (WIKITEXT,),
    "gpt-shakespeare": (),
    "bert": (WIKITEXT,),
    "words": (WIKITEXT,),
    "classify": ("cls/sst2.train.tsv.gz", "--from", "ENCODER"),
    "tag": ("ner/wnut17.train.conll.gz", "--from", "ENCODER"),
    "answer": ("qa/squad_v1.1_dev.train.json.gz", "--from", "ENCODER"),
    "vision": ("vision/cifar10_jpg.train10k.zip",),
    "dino": ("vision/cifar10_jpg.train10k.zip",),
    "caption-emoji": (),
}
"""Recipe -> the words after it. Paths are in $HEADWAY_DATA; ENCODER is that of `embeddings`."""
PEERS = tuple(RECIPES)


def missing() -> str | None:
    """Return the reason why this cannot be measured on this machine, or None."""
    return None if os.environ.get("HEADWAY_DATA") else "HEADWAY_DATA is not set"


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure the recipe that is the name of the peer."""
    recipe = peer.name.rpartition(", ")[2]
    ours.ask(recipe=recipe, flags=[])
    best = fastest(peer, by_hand(), warm_up=False, recipe=recipe)
    pairs = interleave(ours, peer, rounds, warm_up=False, recipe=recipe, by_hand=best["flags"])
    name, title = f"the same, {' '.join(best['flags'])}", f"headway train {recipe}"
    yield row(title, pairs, "targets/s", name, device, goal=goal("defaults"))


def by_hand() -> list[dict[str, Any]]:
    """Return the flags that are tried."""
    dtypes = ["float32", *(["bfloat16"] if multiplies_bfloat16(select_device()) else [])]
    if kind() == "gpu":
        others = [("--graphs", "true"), ("--graphs", "false")]
    else:
        others = [("--threads", str(n)) for n in sorted({1, os.cpu_count() or 1})]
    return [{"flags": ["--dtype", d, *other]} for d, other in product(dtypes, others)]


def ours(settings: Settings) -> Worker:
    return _trained(settings, lambda question: [])


def __getattr__(name: str) -> Callable[[Settings], Worker]:
    """The side of a recipe by hand, by whose name it is looked up."""
    if name not in RECIPES:
        raise AttributeError(name)
    return lambda settings: _trained(settings, lambda q: q.get("by_hand") or q["flags"])


def _trained(settings: Settings, flags: Callable[[dict[str, Any]], list[str]]) -> Worker:
    folder, numbers = Path(tempfile.mkdtemp(prefix="headway-bench-")), count()

    def work(question: dict[str, Any]) -> Answer:
        recipe, made = question["recipe"], folder / "runs" / f"run-{next(numbers)}"
        words = [recipe, *map(_word, RECIPES[recipe]), *flags(question)]
        answer = train(words, settings.work, made)
        shutil.rmtree(made)
        return answer

    return work


def _word(word: str) -> str:
    if word == "ENCODER":
        return str(encoder_folder())
    return str(Path(os.environ["HEADWAY_DATA"], word)) if "/" in word else word
