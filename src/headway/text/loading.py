"""Loads the tokenizer of a language model, of any kind, from a folder."""

from __future__ import annotations

from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import read_json
from headway.text import characters, hf_tokenizer
from headway.text.characters import CharacterTokenizer
from headway.text.hf_tokenizer import PretrainedTokenizer
from headway.text.text_subwords import FILE, TextBPE, TextUnigram
from headway.text.tokenizer import TextTokenizer
from headway.text.unigram import is_unigram


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
