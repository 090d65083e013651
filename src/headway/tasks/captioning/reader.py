"""The reader of a captioner: image preprocessing, and tokens of captions in several languages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import are_distinct_names, json_bytes, read_json, write_file
from headway.data.image_reader import ImageReader
from headway.text import TextTokenizer, load_tokenizer, positions_of_words

FILE = "captions.json"
FORMAT = 1
LONGEST = 2**16


@dataclass(frozen=True)
class CaptionReader:
    """Preprocesses images, and converts captions to ids and back.

    images: the image reader. tokenizer: the tokenizer of the captions. languages: the languages of
    the captions; empty for one language without a name. longest: the maximum number of tokens of a
    caption.

    A caption starts with the token of its language, so that one model can write all languages. The
    ids of these tokens follow those of the tokenizer, and no text is encoded to them. Without
    languages a caption starts with the tokenizer's `bos`. A space precedes the first word, so that
    it is tokenized as in the middle of a sentence.
    """

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

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything that pixels and tokens depend on."""
        parts = (self.images.fingerprint, self.tokenizer.fingerprint, self._json().decode())
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def _json(self) -> bytes:
        metadata = {"format": FORMAT, "languages": self.languages, "longest": self.longest}
        return json_bytes(metadata)

    def save(self, folder: Path) -> None:
        """Write images.json, tokenizer.json and captions.json."""
        self.images.save(folder)
        self.tokenizer.save(folder)
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> CaptionReader:
        """Load the files that `save` wrote. Raises DataError if they are invalid."""
        path = folder / FILE
        metadata = read_json(path)
        languages = metadata.get("languages") if isinstance(metadata, dict) else None
        if (
            not are_distinct_names(languages)
            or metadata.get("format") != FORMAT
            or not all(languages)
            or type(metadata.get("longest")) is not int
            or not 0 < metadata["longest"] <= LONGEST
        ):
            raise DataError(
                "expected `languages`, a list of distinct names, and `longest`, a number from 1 to "
                f"{LONGEST} (format {FORMAT})",
                str(path),
            )
        images, tokenizer = ImageReader.load(folder), load_tokenizer(folder)
        return cls(images, tokenizer, tuple(languages), metadata["longest"])
