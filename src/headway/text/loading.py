"""Loads the tokenizer of a language model, of any kind, from a folder; and substitutes for a
missing tokenizer, whose every use raises an error."""

from pathlib import Path
from typing import Any, NoReturn

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json
from headway.text import characters, hf_tokenizer
from headway.text.characters import CharacterTokenizer
from headway.text.encoder_tokenizer import EncoderTokenizer
from headway.text.hf_tokenizer import PretrainedTokenizer
from headway.text.text_subwords import FILE, TextBPE, TextUnigram
from headway.text.tokenizer import TextTokenizer
from headway.text.unigram import is_unigram


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


def load_tokenizer(folder: Path) -> TextTokenizer:
    """Load the tokenizer that `TextTokenizer.save` wrote to `folder`.

    Raises DataError if the file is missing or is not a tokenizer of headway.
    """
    path = folder / FILE
    if not path.is_file():
        raise DataError(
            f"the folder has no {FILE}", str(folder), "give the folder of a saved model"
        )
    content = read_json(path, hf_tokenizer.FILE_LIMIT)
    kind = content.get("format") if isinstance(content, dict) else None
    if kind == characters.FORMAT:
        return CharacterTokenizer.load(path)
    if kind == hf_tokenizer.FORMAT:
        return PretrainedTokenizer.load(path)
    return TextUnigram.load(path) if is_unigram(content) else TextBPE.load(path)
