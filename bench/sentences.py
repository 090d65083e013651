"""The model and sentences of the benchmarks: a briefly trained post-norm translation model.

    python -m bench.sentences FOLDER STEPS

The data is Multi30k English-German from $HEADWAY_DATA; if it is not there, synthetic sentences of
similar length from a fixed seed. The folder is a run folder (tokenizer, token shards, model) with
a file of the English test sentences.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from bench.translation import SENTENCES
from headway.base.files import write_file
from headway.runs import recipe, train
from headway.tasks.translation.directions import corpora_of
from headway.tasks.translation.pairs.reading import read_pairs

SYNTHETIC_PAIRS, SYNTHETIC_TEST, LEXICON = 20_000, 1000, 6000


def source_of_data() -> str:
    """Return `multi30k` or `synthetic`."""
    folder = os.environ.get("HEADWAY_DATA")
    exists = folder and any(Path(folder, "mt").glob("multi30k.train.*"))
    return "multi30k" if exists else "synthetic"


def trained(cache: Path, steps: int) -> Path:
    """Return the run folder for this data and number of steps; train it if it does not exist."""
    folder = cache / f"{source_of_data()}-{steps}"
    if not (folder / SENTENCES).is_file():
        print(f"training {steps} steps on {source_of_data()} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "bench.sentences", str(folder), str(steps)]
        subprocess.run(command, check=True)
    return folder


def write_sentences(folder: Path) -> None:
    """Write the sentences to translate to a file in the run folder."""
    if source_of_data() == "multi30k":
        (corpus,) = corpora_of(recipe("translate-multi30k").data)
        test = corpus.files.test
        assert test is not None
        texts = [pair.source for pair in read_pairs(test)]
    else:
        texts = [source for source, _ in synthetic(SYNTHETIC_TEST, seed=3)]
    write_file(folder / SENTENCES, ("\n".join(texts) + "\n").encode())


def synthetic(count: int, seed: int) -> list[tuple[str, str]]:
    """Generate sentence pairs of 6 to 22 Zipf-distributed words, translated word by word."""
    words = random.Random(0)
    letters, vowels = "bdfghklmnprstvz", "aeiou"

    def word() -> str:
        parts = words.choices(letters, k=3), words.choices(vowels, k=3)
        return "".join(a + b for a, b in zip(*parts, strict=True))[: words.randint(3, 6)]

    lexicon = [(word(), word()) for _ in range(LEXICON)]
    weights = [1 / (rank + 2) for rank in range(LEXICON)]
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        length = min(22, max(6, round(draw.gauss(12, 3.5))))
        chosen = draw.choices(lexicon, weights, k=length)
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
