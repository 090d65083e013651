"""The model, the texts and the sentences of the benchmarks: a briefly trained translation model.

The data is Multi30k English-German from $HEADWAY_DATA; if it is not there, synthetic sentences of
similar length from a fixed seed. The folder is a run folder (tokenizer, token shards, model) with
a file of the English test sentences.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.commands import HEADWAY, run
from headway.base.files import write_file
from headway.cli.measure import sentence_pairs
from headway.runs import recipe
from headway.tasks.translation.directions import corpora_of
from headway.tasks.translation.pairs.reading import read_pairs

SENTENCES = "sentences.txt"  # in the run folder, one per line
SYNTHETIC_PAIRS, SYNTHETIC_TEST = 20_000, 1000


def source_of_data() -> str:
    """Return `multi30k` or `synthetic`."""
    folder = os.environ.get("HEADWAY_DATA")
    exists = folder and any(Path(folder, "mt").glob("multi30k.train.*"))
    return "multi30k" if exists else "synthetic"


def trained(cache: Path, steps: int) -> Path:
    """Return the run folder for this data and number of steps; train it if it does not exist."""
    name = f"{source_of_data()}-{steps}"
    folder = cache / "runs" / name
    if not (folder / SENTENCES).is_file():
        print(f"training {steps} steps on {source_of_data()} ...", file=sys.stderr, flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        words = [*HEADWAY, "train", *translation_words(cache)]
        run([*words, "--steps", str(steps), "--run", name], cache)
        write_sentences(folder)
    return folder


def write_sentences(folder: Path) -> None:
    """Write the sentences to translate to a file in the run folder."""
    if source_of_data() == "multi30k":
        (corpus,) = corpora_of(recipe("translate-multi30k").data)
        test = corpus.files.test
        assert test is not None
        texts = [pair.source for pair in read_pairs(test)]
    else:
        texts = [source for source, _ in sentence_pairs(SYNTHETIC_TEST, seed=3)]
    write_file(folder / SENTENCES, ("\n".join(texts) + "\n").encode())


def translation_words(folder: Path) -> list[str]:
    """Return the words after `headway train` for a translator: of Multi30k, or of made-up pairs,
    whose file is written to the folder."""
    if source_of_data() == "multi30k":
        return ["translate-multi30k"]
    path = folder / "pairs.tsv"
    lines = "".join(f"{a}\t{b}\n" for a, b in sentence_pairs(SYNTHETIC_PAIRS, seed=1))
    write_file(path, ("en\tde\n" + lines).encode())
    return ["translate", str(path), "--source", "en", "--target", "de"]


def text_file(folder: Path) -> str:
    """Return the file of a text for a language model: WikiText-2 from $HEADWAY_DATA, or a made-up
    one, which is written to the folder."""
    data = os.environ.get("HEADWAY_DATA")
    path = Path(data or "", "lm", "wikitext2.valid_as_train.raw.txt.gz")
    if data and path.is_file():
        return str(path)
    path = folder / "text.txt"
    text = "".join(f"{a}\n" for a, _ in sentence_pairs(SYNTHETIC_PAIRS, seed=1))
    write_file(path, text.encode())
    return str(path)
