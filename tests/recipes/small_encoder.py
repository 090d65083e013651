"""A tiny encoder with a tokenizer of its own, and texts for it of our own making."""

from pathlib import Path

import torch

from headway.bundle import EncoderBundle
from headway.models import Bert, BertConfig
from headway.text import MarkedTokenizer

ANIMALS, TOOLS = ["fox", "owl", "crab", "toad", "hare"], ["saw", "rake", "drum", "spade", "lamp"]
PLACES = ["by the lake", "in a shed", "near us", "on the hill", "at home", "below", "up there"]
WORDS = ["one", "two", "three", "four", "five"]
TEXTS = [
    (f"the {name} is {place}", label)
    for place in PLACES
    for label, names in (("animal", ANIMALS), ("tool", TOOLS))
    for name in names
]
PAIRS = [
    (f"the {a} is {place}", f"it is {b}", "same" if (a in ANIMALS) == (b == "alive") else "other")
    for place in PLACES
    for a in ANIMALS + TOOLS
    for b in ("alive", "a thing")
]
"""Alone, neither text says whether the two say the same."""
COUNTS = [
    (f"{word} {name}s {place}", str(1 + i + 0.5 * (name == "owl")))
    for place in PLACES
    for i, word in enumerate(WORDS)
    for name in ("fox", "owl")
]


def write_encoder(folder: Path, **changes: object) -> Path:
    """An encoder with random weights that can read all of this."""
    texts = [part for row in (*TEXTS, *PAIRS, *COUNTS) for part in row[:-1]]
    tokenizer = MarkedTokenizer.train(texts, 200)
    torch.manual_seed(5)
    shape = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2, "max_length": 24}
    config = BertConfig(**{**shape, "vocabulary": tokenizer.size, **changes})
    EncoderBundle(Bert(config), tokenizer).save(folder)
    return folder


def write_table(path: Path, rows: list[tuple[str, ...]], header: str) -> str:
    """Rows as a .tsv file under the names of `header`."""
    lines = [header, *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
