"""The language model's tokenizer in a folder, of whatever kind."""

from __future__ import annotations

from pathlib import Path

from headway.errors import DataError
from headway.files import read_json
from headway.text import characters, hf_tokenizer
from headway.text.characters import Characters
from headway.text.hf_tokenizer import ForeignTokenizer
from headway.text.text_bpe import FILE, TextPieces
from headway.text.tokenizer import TextTokenizer


def load_tokenizer(folder: Path) -> TextTokenizer:
    """What `TextTokenizer.save` wrote there. DataError if it is absent or no tokenizer of ours."""
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"there is no {FILE}", str(folder))
    facts = read_json(path, hf_tokenizer.FILE_LIMIT)
    kind = facts.get("format") if isinstance(facts, dict) else None
    if kind == characters.FORMAT:
        return Characters.load(path)
    if kind == hf_tokenizer.FORMAT:
        return ForeignTokenizer.load(path)
    return TextPieces.load(path)
