"""The reader of a captioner: image preprocessing, and tokens of captions in several languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headway.base.errors import UsageError
from headway.base.files import are_distinct_names, is_count
from headway.bundle import StoredImageReader
from headway.data.image_reader import ImageReader
from headway.text import TextTokenizer, load_tokenizer, positions_of_words

LONGEST = 2**16


@dataclass(frozen=True)
class CaptionReader(StoredImageReader):
    """Preprocesses images, and converts captions to ids and back.

    images: the image reader. tokenizer: the tokenizer of the captions. languages: the languages of
    the captions; empty for one language without a name. longest: the maximum number of tokens of a
    caption.

    A caption starts with the token of its language, so that one model can write all languages. The
    ids of these tokens follow those of the tokenizer, and no text is encoded to them. Without
    languages a caption starts with the tokenizer's `bos`. A space precedes the first word, so that
    it is tokenized as in the middle of a sentence.
    """

    FILE: ClassVar[str] = "captions.json"

    images: ImageReader
    tokenizer: TextTokenizer
    languages: tuple[str, ...]
    longest: int

    @property
    def size(self) -> int:
        """The vocabulary size, language tokens included."""
        return self.tokenizer.size + len(self.languages)

    @property
    def specials(self) -> list[int]:
        """The start tokens, which are never generated."""
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        return [*([bos] if bos != eos else []), *range(self.tokenizer.size, self.size)]

    def first(self, language: str | None) -> int:
        """Return the start token of captions in a language; None: the first language.

        Raises UsageError for a language that is not one of `languages`.
        """
        if language is None:
            return self.tokenizer.size if self.languages else self.tokenizer.bos
        if language not in self.languages:
            known = ", ".join(self.languages) or "one language without a name; leave it unset"
            raise UsageError(
                f"the model has no captions in the language {language!r}", hint=f"it has {known}"
            )
        return self.tokenizer.size + self.languages.index(language)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode captions, without start and end token."""
        return self.tokenizer.encode_batch([f" {text.strip()}" for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to a caption."""
        return self.tokenizer.decode(i for i in ids if i < self.tokenizer.size).strip()

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return a readable text for each token."""
        size = self.tokenizer.size
        return [
            self.tokenizer.token_strings([i])[0] if i < size else f"<{self.languages[i - size]}>"
            for i in ids
        ]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """Return the positions of the tokens of each word; a language token is a separate word."""
        front = next((i for i, token in enumerate(ids) if token < self.tokenizer.size), len(ids))
        words = positions_of_words(self.tokenizer, ids[front:])
        return [[i] for i in range(front)] + [[front + i for i in word] for word in words]

    def contents(self) -> tuple[TextTokenizer, dict[str, object]]:
        """See `StoredReader`."""
        return self.tokenizer, {"languages": self.languages, "longest": self.longest}

    @classmethod
    def load(cls, folder: Path) -> CaptionReader:
        """Load the files that `save` wrote. Raises DataError if they are invalid."""

        def are_valid(settings: dict[str, object]) -> bool:
            languages, longest = settings.get("languages"), settings.get("longest")
            is_length = is_count(longest, 1) and longest <= LONGEST
            return are_distinct_names(languages) and all(languages) and is_length

        settings = cls.load_settings(
            folder,
            are_valid,
            f"`languages`, a list of distinct names, and `longest`, a number from 1 to {LONGEST}",
        )
        images, tokenizer = ImageReader.load(folder), load_tokenizer(folder)
        return cls(images, tokenizer, tuple(settings["languages"]), settings["longest"])
