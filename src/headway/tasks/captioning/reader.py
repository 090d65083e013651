"""How a captioner reads pictures and writes texts, in one language or several."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.image_reader import ImageReader
from headway.errors import DataError, UsageError
from headway.files import are_distinct_names, json_bytes, read_json, write_file
from headway.text import TextTokenizer, load_tokenizer, word_places

FILE = "captions.json"
FORMAT = 1
LONGEST = 2**16


@dataclass(frozen=True)
class CaptionReader:
    """images: how pictures are read. tokenizer: its pieces are what is written. languages: what the
    model speaks, none if that is one without a name. longest: most pieces of a caption.

    A caption begins with the token of its language, so that one model speaks all of them; these
    tokens follow the tokenizer's own, and no text can spell them. Without languages it begins with
    the tokenizer's `bos`. A space stands before the first word, which so has the pieces that it has
    everywhere.
    """

    images: ImageReader
    tokenizer: TextTokenizer
    languages: tuple[str, ...]
    longest: int

    @property
    def size(self) -> int:
        """All tokens, those of languages included."""
        return self.tokenizer.size + len(self.languages)

    @property
    def specials(self) -> list[int]:
        """What is never written: first tokens."""
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        return [*([bos] if bos != eos else []), *range(self.tokenizer.size, self.size)]

    def first(self, language: str | None) -> int:
        """The token that a caption begins with; None: of the first language. UsageError for a
        language that the model does not speak."""
        if language is None:
            return self.tokenizer.size if self.languages else self.tokenizer.bos
        if language not in self.languages:
            spoken = ", ".join(self.languages) or "one language, which has no name"
            raise UsageError(f"the model does not speak {language!r}", hint=f"it speaks {spoken}")
        return self.tokenizer.size + self.languages.index(language)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of captions, without first and last token."""
        return self.tokenizer.encode_batch([f" {text.strip()}" for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        """The way back."""
        return self.tokenizer.decode(i for i in ids if i < self.tokenizer.size).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each token stands for, to be shown to a person."""
        own = self.tokenizer.size
        return [
            self.tokenizer.pieces([i])[0] if i < own else f"<{self.languages[i - own]}>"
            for i in ids
        ]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """The places of each word's pieces; a language's token is a word of its own."""
        front = next((i for i, token in enumerate(ids) if token < self.tokenizer.size), len(ids))
        after = word_places(self.tokenizer, ids[front:])
        return [[i] for i in range(front)] + [[front + i for i in places] for places in after]

    @property
    def fingerprint(self) -> str:
        """sha256 of all that numbers and tokens depend on."""
        parts = (self.images.fingerprint, self.tokenizer.fingerprint, self._json().decode())
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "languages": self.languages, "longest": self.longest}
        return json_bytes(facts)

    def save(self, folder: Path) -> None:
        """Write images.json, tokenizer.json and captions.json."""
        self.images.save(folder)
        self.tokenizer.save(folder)
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> CaptionReader:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / FILE
        facts = read_json(path)
        languages = facts.get("languages") if isinstance(facts, dict) else None
        if (
            not are_distinct_names(languages)
            or facts.get("format") != FORMAT
            or not all(languages)
            or type(facts.get("longest")) is not int
            or not 0 < facts["longest"] <= LONGEST
        ):
            raise DataError(f"does not say how captions are written (format {FORMAT})", str(path))
        images, tokenizer = ImageReader.load(folder), load_tokenizer(folder)
        return cls(images, tokenizer, tuple(languages), facts["longest"])
