"""Which text a model learns from: what all models of running text are told."""

from __future__ import annotations

from dataclasses import dataclass

from headway.data.documents import Split
from headway.settings import setting


@dataclass(frozen=True, kw_only=True)
class TextDataConfig:
    train: tuple[str, ...] = setting(
        (), "text: .txt, .md or .jsonl files, plain or .gz, folders of them, or python-docs"
    )
    valid: tuple[str, ...] = setting((), "held-out text; none keeps the end of each of train")
    held_out: float = setting(0.05, "share of the text kept so", gt=0, lt=1)
    split: Split = setting(
        "file",
        "what is a document of a text file: all of it, a paragraph, a line, or what follows a "
        "title as WikiText writes it",
    )
    key: str = setting("text", "what holds the text in a line of a .jsonl file")
