"""What is measured on: a briefly trained post-norm translator in a folder, made once.

    python -m bench.sentences FOLDER STEPS

Multi30k English-German from $HEADWAY_DATA where there is one; otherwise made-up sentences of a
caption's length, from a fixed seed. The folder is a run folder (tokenizer, token shards, model)
with the English test sentences beside them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from bench.translation import SENTENCES
from headway.data.formats import read_pairs
from headway.files import write_file
from headway.runs import recipe, train
from headway.tasks.translation.data import splits_of

SYNTHETIC_PAIRS, SYNTHETIC_TEST, LEXICON = 20_000, 1000, 6000


def source_of_data() -> str:
    """`multi30k` or `synthetic`."""
    folder = os.environ.get("HEADWAY_DATA")
    there = folder and any(Path(folder, "mt").glob("multi30k.train.*"))
    return "multi30k" if there else "synthetic"


def trained(cache: Path, steps: int) -> Path:
    """The run folder for this data and so many steps; trained now if it is not there."""
    folder = cache / f"{source_of_data()}-{steps}"
    if not (folder / SENTENCES).is_file():
        print(f"training {steps} steps on {source_of_data()} ...", file=sys.stderr, flush=True)
        made = [sys.executable, "-m", "bench.sentences", str(folder), str(steps)]
        subprocess.run(made, check=True)
    return folder


def write_sentences(folder: Path) -> None:
    """The sentences to translate, beside a run."""
    if source_of_data() == "multi30k":
        test = splits_of(recipe("translate-multi30k").data).test
        assert test is not None
        texts = [pair.source for pair in read_pairs(test)]
    else:
        texts = [source for source, _ in synthetic(SYNTHETIC_TEST, seed=3)]
    write_file(folder / SENTENCES, ("\n".join(texts) + "\n").encode())


def synthetic(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of made-up sentences: 6 to 22 words, Zipf's law, a target word for each source word."""
    words = random.Random(0)
    letters, vowels = "bdfghklmnprstvz", "aeiou"

    def word() -> str:
        parts = words.choices(letters, k=3), words.choices(vowels, k=3)
        return "".join(a + b for a, b in zip(*parts, strict=True))[: words.randint(3, 6)]

    lexicon = [(word(), word()) for _ in range(LEXICON)]
    chances = [1 / (rank + 2) for rank in range(LEXICON)]
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        length = min(22, max(6, round(draw.gauss(12, 3.5))))
        chosen = draw.choices(lexicon, chances, k=length)
        pairs.append((" ".join(a for a, _ in chosen) + " .", " ".join(b for _, b in chosen) + " ."))
    return pairs


def _train(folder: Path, steps: int) -> None:
    changes: dict[str, object] = {
        "model.norm": "post",
        "model.dropout": 0.1,
        "optimizer.lr": 1.5e-3,
        "schedule.warmup": min(400, steps // 2),
        "training.steps": steps,
        "training.average": 0.0,
        "evaluation.every": steps,
        "evaluation.sentences": 50,
        "evaluation.metric": "nats",
        "checkpoint.every": steps,
    }
    if source_of_data() == "synthetic":
        folder.mkdir(parents=True, exist_ok=True)
        for name, count, seed in (("train", SYNTHETIC_PAIRS, 1), ("valid", 500, 2)):
            lines = "".join(f"{a}\t{b}\n" for a, b in synthetic(count, seed))
            path = folder / f"{name}.tsv"
            write_file(path, ("en\tde\n" + lines).encode())
            changes[f"data.{name}"] = str(path)
        changes |= {"data.source": "en", "data.target": "de"}
        config = recipe("translate", ("bench", changes))
    else:
        changes["machine.dtype"] = "float32"
        config = recipe("translate-multi30k", ("bench", changes))
    outcome = train(config, folder)
    if outcome.stop != "done":
        raise SystemExit(f"training stopped: {outcome.stop}")
    write_sentences(folder)


if __name__ == "__main__":
    _train(Path(sys.argv[1]), int(sys.argv[2]))
