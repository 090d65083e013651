"""The tokenizer contract of language models, fulfilled by tokenizers of any origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol


class TextTokenizer(Protocol):
    """Converts text to ids 0 .. size-1 and back.

    bos: id of the token before the first token of a text. eos: id of the token after the last one;
    the two may be the same token (GPT-2: <|endoftext|>). ends: ids of all tokens that end an
    output; `eos` is the first. A chat model often has two: one ends a turn, one a text.
    fingerprint: sha256 of everything that the ids depend on.
    """

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int: ...

    @property
    def eos(self) -> int: ...

    @property
    def ends(self) -> tuple[int, ...]: ...

    @property
    def fingerprint(self) -> str: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text` without special tokens, independent of its context."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text."""
        ...

    def begin(self, text: str) -> list[int]:
        """Return the ids of `text` at the start of a text, as in training (usually with bos).

        Never empty, because a model needs at least one token to predict the next.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; special tokens are skipped, broken characters become U+FFFD.

        decode(encode(text)) == text for every text.
        """
        ...

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return the string of each token, for display."""
        ...

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` durably; `load_tokenizer` reads it."""
        ...
