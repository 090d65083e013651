"""The tokenizer contracts of language models and of encoder-decoders, which tokenizers of any
origin fulfil, and what all of them share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headway.base.errors import DataError


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


def checked_ids(ids: Iterable[int], size: int) -> list[int]:
    """Return the ids as integers. Raises DataError for an id that is not in 0 .. size - 1."""
    checked = list(map(int, ids))
    if checked and not 0 <= min(checked) <= max(checked) < size:
        outside = next(i for i in checked if not 0 <= i < size)
        raise DataError(
            f"token id {outside} is outside the vocabulary, ids 0 to {size - 1}",
            hint="use the tokenizer that the model was trained with",
        )
    return checked


@dataclass(frozen=True, kw_only=True)
class TextFrame:
    """[before] text [end], shortened to `length` tokens.

    before: special tokens before each text. end: the token after it. fill: the token that fills
    every text to `length` tokens, as part of it, so that the model attends to it (SigLIP); None for
    texts of different lengths (CLIP). fills_left: whether that precedes the text.
    """

    length: int
    before: tuple[int, ...]
    end: int
    fill: int | None = None
    fills_left: bool = False

    @property
    def room(self) -> int:
        """The maximum number of tokens of a text without special tokens."""
        return self.length - len(self.before) - 1

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text with special tokens."""
        whole = [*self.before, *ids[: self.room], self.end]
        if self.fill is None:
            return whole
        rest = [self.fill] * (self.length - len(whole))
        return rest + whole if self.fills_left else whole + rest
