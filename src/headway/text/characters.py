"""The classroom's tokenizer: one id for each character."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.text.bpe import EOS, checked

FORMAT = "headway characters 1"
FILE = "tokenizer.json"
FILE_LIMIT = 64 * 2**20


class Characters:
    """The characters of a training text, in the order of their codes; id 0 is </s>.

    </s> ends a text and begins the next one, and no text can spell it. A `TextTokenizer`.
    """

    def __init__(self, characters: str) -> None:
        """Each once."""
        if len(set(characters)) != len(characters):
            raise DataError("a character stands twice in the alphabet")
        self.characters = characters
        self.ids = {character: i for i, character in enumerate(characters, start=1)}
        self.bos = self.eos = 0
        self.size = len(characters) + 1

    @classmethod
    def train(cls, texts: Iterable[str]) -> Characters:
        """The alphabet of `texts`. DataError if they are empty, or hold half a character."""
        found: set[str] = set()
        for text in texts:
            found |= set(checked(text))
        if not found:
            raise DataError("the text has no characters")
        return cls("".join(sorted(found)))

    def encode(self, text: str) -> list[int]:
        """One id a character. UsageError for one that the training text did not have."""
        try:
            return [self.ids[character] for character in text]
        except KeyError as error:
            raise UsageError(
                f"the model does not know the character {error.args[0]!r}",
                hint="leave it out, or train on a text that has it; --data.tokenizer bpe knows all",
            ) from None

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def begin(self, text: str) -> list[int]:
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; </s> is skipped. DataError for an id outside 0 .. size-1."""
        return "".join("" if i == self.eos else self._character(i) for i in ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [EOS if i == self.eos else self._character(i) for i in ids]

    def _character(self, i: int) -> str:
        if not 0 < i < self.size:
            raise DataError(f"token id {i} is outside the alphabet of {self.size}")
        return self.characters[i - 1]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "characters": self.characters}
        return (json.dumps(facts, ensure_ascii=False) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, path: Path) -> Characters:
        """Read what `save` wrote; DataError if it is not that."""
        facts: Any = read_json(path, FILE_LIMIT)
        right = isinstance(facts, dict) and facts.get("format") == FORMAT
        if not right or not isinstance(facts.get("characters"), str) or not facts["characters"]:
            raise DataError(f"not an alphabet ({FORMAT})", str(path))
        return cls(facts["characters"])
