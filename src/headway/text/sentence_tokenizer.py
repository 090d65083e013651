"""The tokenizer contract of encoder-decoders, fulfilled by our tokenizer and pretrained ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol


class SentenceTokenizer(Protocol):
    """Converts sentences to ids 0 .. size-1 and back.

    pad: id of the padding. bos: id of the token that the decoder reads first. eos: id of the token
    after the last one. ends: ids of all tokens that end an output; `eos` is the first. prefix: ids
    that begin the ids of every text (BART's <s>). special_ids: the special tokens by name.
    language_tags: ids of the tags of target languages that a source may begin with. sentinels: ids
    of the sentinels of span corruption, in order. fingerprint: sha256 of everything that the ids
    depend on.
    """

    size: int
    pad: int
    bos: int
    eos: int
    special_ids: dict[str, int]
    language_tags: dict[str, int]
    sentinels: tuple[int, ...]

    @property
    def ends(self) -> tuple[int, ...]: ...

    @property
    def prefix(self) -> tuple[int, ...]: ...

    @property
    def fingerprint(self) -> str: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`: `prefix`, its language tag if it begins with one, its words."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; special tokens are skipped, broken characters become U+FFFD."""
        ...

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return the string of each token, for display; the first one of a word has a space."""
        ...

    def words(self, ids: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Return the words of `ids`, each with the positions of its tokens in `ids`."""
        ...

    def save(self, path: Path) -> None:
        """Write the tokenizer durably as one JSON file."""
        ...
