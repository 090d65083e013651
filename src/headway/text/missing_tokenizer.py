"""Substitutes for the tokenizer of a model folder that has none; every use raises an error."""

from __future__ import annotations

from typing import Any, NoReturn

from headway.base.errors import DataError, UsageError
from headway.text.encoder_tokenizer import EncoderTokenizer


def _refuse(missing: DataError) -> NoReturn:
    raise UsageError(
        "this model has no tokenizer, so it cannot process text, only token ids: bundle.model(ids)",
        missing.where,
        missing.hint,
    )


class MissingTokenizer:
    """A `TextTokenizer` without tokens: each of its methods raises UsageError.

    missing: the error with what is missing, where, and which files would be a tokenizer. size: 0,
    or the vocabulary size of the model if it is needed.
    """

    def __init__(self, missing: DataError, size: int = 0) -> None:
        self.missing, self.size = missing, size
        self.bos = self.eos = -1
        self.ends = (-1,)
        self.fingerprint = ""

    def _use(self, *arguments: object, **named: object) -> NoReturn:
        _refuse(self.missing)

    encode = encode_batch = begin = decode = token_strings = save = _use


class MissingEncoderTokenizer(EncoderTokenizer):
    """A `EncoderTokenizer` (for encoders) without an engine: each use raises UsageError."""

    def __init__(self, missing: DataError) -> None:
        self.missing, self.size, self.fingerprint = missing, 0, ""

    def __getattr__(self, name: str) -> Any:
        """Raise UsageError for the attributes that `EncoderTokenizer.__init__` would have set: the
        engine and the special tokens."""
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(self.missing)
