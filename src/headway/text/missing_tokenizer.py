"""What takes the place of a tokenizer where a model folder has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from headway.errors import DataError, UsageError
from headway.text.wordpiece import MarkedTokenizer


def _refuse(missing: DataError) -> NoReturn:
    raise UsageError(
        "this model has no tokenizer, so it cannot read or write text; it computes from ids: "
        "bundle.model(ids)",
        missing.where,
        missing.hint,
    )


class AbsentTokenizer:
    """A `TextTokenizer` without tokens: each of its methods raises UsageError.

    missing: what was found instead of a tokenizer, where, and which files would be one. size: 0,
    unless the model's own number of tokens is needed.
    """

    def __init__(self, missing: DataError, size: int = 0) -> None:
        self.missing, self.size = missing, size
        self.bos = self.eos = -1
        self.fingerprint = ""

    def encode(self, text: str) -> list[int]:
        """UsageError."""
        _refuse(self.missing)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """UsageError."""
        _refuse(self.missing)

    def begin(self, text: str) -> list[int]:
        """UsageError."""
        _refuse(self.missing)

    def decode(self, ids: Iterable[int]) -> str:
        """UsageError."""
        _refuse(self.missing)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """UsageError."""
        _refuse(self.missing)

    def save(self, folder: Path) -> None:
        """UsageError."""
        _refuse(self.missing)


class AbsentMarkedTokenizer(MarkedTokenizer):
    """The same for encoders: a `MarkedTokenizer` without an engine, whose every use raises
    UsageError."""

    def __init__(self, missing: DataError) -> None:
        self.missing, self.size, self.fingerprint = missing, 0, ""

    def __getattr__(self, name: str) -> Any:
        """Only what `MarkedTokenizer.__init__` would have set is looked up here: the engine and the
        special tokens."""
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(self.missing)
