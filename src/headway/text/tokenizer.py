"""What a language model needs of the strings-to-ids side, whoever made it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class TextTokenizer(Protocol):
    """Text to ids 0 .. size-1 and back.

    bos: what a model reads before the first token of a text. eos: what it writes after the last
    one; the two may be one token (as GPT-2's <|endoftext|>). fingerprint: sha256 of all that the
    ids depend on.
    """

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int: ...

    @property
    def eos(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens, whatever stands before or after it."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text."""
        ...

    def begin(self, text: str) -> list[int]:
        """Ids of `text` where a text begins, as the model saw texts begin while it was trained.

        Never empty: a model must read something before it writes.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens are skipped, broken characters become U+FFFD.

        decode(encode(text)) == text for every text.
        """
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for, to be shown to a person."""
        ...

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` durably; `load_tokenizer` reads it."""
        ...
