"""Tokenizers around an engine of the library `tokenizers`."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from headway.base.errors import DataError

BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
"""The name of the token of a byte, in vocabularies of characters."""


def _byte_of_letter() -> dict[str, int]:
    """Return the byte for each character of the byte-level BPE alphabet.

    Printable Latin-1 bytes are written as themselves, the other 68 bytes as the characters from
    U+0100 in order, so that a vocabulary file has no whitespace and no control characters (Radford
    et al. 2019, released code).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(unprintable)}


BYTE_OF_LETTER = _byte_of_letter()


class EngineTokenizer:
    """Encodes texts by an engine, in which no text is encoded as a special token."""

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        # By default the engine recognises special tokens in plain text. Its JSON does not store
        # this option, so it is set here both for trained and for loaded tokenizers.
        engine.encode_special_tokens = True
        self._engine = engine

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without special tokens; [] for the empty string."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text, in parallel on all cores."""
        clean = [checked(text) for text in texts]
        # for one text, too: other threads of Python run meanwhile, but not in the engine's `encode`
        batch = self._engine.encode_batch_fast(clean, add_special_tokens=False)
        return [list(encoding.ids) for encoding in batch]

    def partial_character(self, token: int) -> bytes | None:
        """Return the bytes of a token that is not a whole number of characters, such as one of the
        three bytes of a Chinese one; None if they are unknown."""
        name = str(self._engine.id_to_token(token))
        if byte := BYTE_TOKEN.fullmatch(name):
            return bytes([int(byte[1], 16)])
        is_known = name and all(letter in BYTE_OF_LETTER for letter in name)
        return bytes(BYTE_OF_LETTER[letter] for letter in name) if is_known else None

    @property
    def engine_json(self) -> dict[str, Any]:
        """The engine in the Hugging Face format, as parsed JSON."""
        content: dict[str, Any] = json.loads(self._engine.to_str())
        return content

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the contents of the file."""
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        """Return the contents of the file."""
        return str(self._engine.to_str()).encode("utf-8")


def file_of(content: Mapping[str, object]) -> bytes:
    """Return the contents of a file of headway's own, in which the engine is one entry."""
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


def checked(text: str) -> str:
    """Return `text`; raise DataError if it has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text has a lone surrogate, {text[error.start]!a}, at character {error.start}; "
            "this is only half of a character",
            hint="read the text as UTF-8 with errors='strict'",
        ) from error
    return text
