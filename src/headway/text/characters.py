"""A character-level tokenizer: one token per character."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json, write_file
from headway.text.byte_level import EOS
from headway.text.engine import checked
from headway.text.tokenizer import checked_ids

FORMAT = "headway characters 1"
FILE = "tokenizer.json"
FILE_LIMIT = 64 * 2**20


class CharacterTokenizer:
    """A `TextTokenizer` whose tokens are the characters of a training text, by code point.

    Id 0 is </s>, which ends a text and starts the next one. Text that looks like </s> is never
    encoded as that token.
    """

    def __init__(self, characters: str) -> None:
        """Make a tokenizer for the distinct `characters`; their ids start at 1."""
        if len(set(characters)) != len(characters):
            raise DataError(
                "the characters of the alphabet must be distinct, but one occurs twice",
                hint="remove the duplicate",
            )
        self.characters = characters
        self.ids = {character: i for i, character in enumerate(characters, start=1)}
        self.bos = self.eos = 0
        self.ends = (0,)
        self.size = len(characters) + 1

    @classmethod
    def train(cls, texts: Iterable[str]) -> CharacterTokenizer:
        """Collect the alphabet of `texts`. Raises DataError if they are empty or have a lone
        surrogate."""
        alphabet: set[str] = set()
        for text in texts:
            alphabet |= set(checked(text))
        if not alphabet:
            raise DataError(
                "the training text must have at least one character, but is empty",
                hint="check the files of --data.train",
            )
        return cls("".join(sorted(alphabet)))

    def encode(self, text: str) -> list[int]:
        """Return one id per character. Raises UsageError for a character that was not in the
        training text."""
        try:
            return [self.ids[character] for character in text]
        except KeyError as error:
            raise UsageError(
                f"the character {error.args[0]!r} is not in the model's vocabulary",
                hint="remove it, or train on a text that has it; --data.tokenizer bpe has no "
                "unknown characters",
            ) from None

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def begin(self, text: str) -> list[int]:
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`, without </s>. Raises DataError for an id outside 0 ..
        size-1."""
        known = checked_ids(ids, self.size)
        return "".join(self.characters[i - 1] for i in known if i != self.eos)

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        known = checked_ids(ids, self.size)
        return [EOS if i == self.eos else self.characters[i - 1] for i in known]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        content = {"format": FORMAT, "characters": self.characters}
        return (json.dumps(content, ensure_ascii=False) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, path: Path) -> CharacterTokenizer:
        """Read a file that `save` wrote. Raises DataError for another file."""
        content: Any = read_json(path, FILE_LIMIT)
        is_format = isinstance(content, dict) and content.get("format") == FORMAT
        if (
            not is_format
            or not isinstance(content.get("characters"), str)
            or not content["characters"]
        ):
            raise DataError(
                f"the file is not a character tokenizer of format {FORMAT!r}",
                str(path),
                "give the folder of a model that headway trained",
            )
        return cls(content["characters"])
