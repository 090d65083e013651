"""The language model's tokenizer in a folder, of whatever kind."""

from __future__ import annotations

from pathlib import Path

from headway.errors import DataError
from headway.files import read_json
from headway.text import characters, foreign
from headway.text.characters import Characters
from headway.text.contract import TextTokenizer
from headway.text.foreign import ForeignTokenizer
from headway.text.pieces import FILE, TextPieces


def load_tokenizer(folder: Path) -> TextTokenizer:
    """What `TextTokenizer.save` wrote there. DataError if it is absent or no tokenizer of ours."""
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"there is no {FILE}", str(folder))
    facts = read_json(path, foreign.FILE_LIMIT)
    kind = facts.get("format") if isinstance(facts, dict) else None
    if kind == characters.FORMAT:
        return Characters.load(path)
    if kind == foreign.FORMAT:
        return ForeignTokenizer.load(path)
    return TextPieces.load(path)
