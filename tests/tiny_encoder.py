"""A tiny fresh encoder and texts so easy that it learns them in seconds."""

import json
import random
from pathlib import Path

from headway.bundle import EncoderBundle
from headway.models import Bert, BertConfig
from headway.text import MarkedTokenizer

PEOPLE = ["Ada Lee", "Bo Nash", "Cleo Quinn", "Émile Roux", "Dora Vance", "Zoë Thorn"]
PLACES = ["the lake", "a red barn", "our garden", "the old mill", "a shed"]
VERBS = ["sings", "sleeps", "waits", "paints"]


def sentences(count: int = 90, seed: int = 0) -> list[str]:
    """Somebody does something somewhere."""
    pick = random.Random(seed)
    return [
        f"in {pick.choice(PLACES)} {pick.choice(PEOPLE)} {pick.choice(VERBS)} ."
        for _ in range(count)
    ]


def tagged(text: str) -> tuple[list[str], list[str]]:
    """Words, and which of them are somebody's name: those with a capital letter."""
    words, tags = text.split(), []
    for word in words:
        begun = bool(tags) and tags[-1] != "O"
        tags.append("O" if word == word.lower() else "I-name" if begun else "B-name")
    return words, tags


def write_conll(path: Path, texts: list[str]) -> str:
    rows = ["\n".join("\t".join(pair) for pair in zip(*tagged(x), strict=True)) for x in texts]
    path.write_text("\n\n".join(rows) + "\n")
    return str(path)


def write_squad(path: Path, count: int = 60, seed: int = 0) -> str:
    """Who is named in the middle of a story? Written in SQuAD's form."""
    pick, paragraphs = random.Random(seed), []
    for i in range(count):
        names = [pick.choice(PEOPLE)]
        before = " ".join(f"{pick.choice(VERBS)} in {pick.choice(PLACES)}" for _ in range(i % 5))
        after = " ".join(f"{pick.choice(VERBS)} in {pick.choice(PLACES)}" for _ in range(i % 3))
        context = f"« {before} {names[0]} {after} »"
        answers = [{"text": names[0], "answer_start": context.index(names[0])}]
        row = {"id": f"q{i}", "question": "who is there ?", "answers": answers}
        paragraphs.append({"context": context, "qas": [row]})
    facts = {"version": "1.1", "data": [{"title": "stories", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(facts, ensure_ascii=False))
    return str(path)


def save_encoder(folder: Path, **changes) -> Path:
    """An untrained encoder whose tokenizer knows capitals and accents."""
    texts = [*sentences(), *PEOPLE, "who is there ? « » 🦊 unhappily"]
    tokenizer = MarkedTokenizer.train(texts, 160, lower=False)
    small = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2, "max_length": 60}
    config = BertConfig(**{**small, "vocabulary": tokenizer.size, "dropout": 0.0, **changes})
    EncoderBundle(Bert(config), tokenizer).save(folder)
    return folder
