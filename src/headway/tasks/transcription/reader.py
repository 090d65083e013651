"""The reader of a transcriber: its tokenizer, and the tokens that say what to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from headway.base.files import is_count
from headway.bundle import StoredReader
from headway.interop import SpeechTokens
from headway.text import TextTokenizer, load_tokenizer, positions_of_words


@dataclass(frozen=True)
class TranscriptReader(StoredReader):
    """Converts transcripts to ids and back. tokens: those that the decoder reads first, and the
    times."""

    FILE: ClassVar[str] = "transcripts.json"

    tokenizer: TextTokenizer
    tokens: SpeechTokens

    def encode(self, text: str) -> list[int]:
        """Encode a transcript. A space precedes its first word, as in the published models."""
        return self.tokenizer.encode(f" {text.strip()}")

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text, without times and other special tokens."""
        return self.tokenizer.decode(i for i in ids if i < self.tokens.first_time)

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return a readable text for each token."""
        return self.tokenizer.token_strings(ids)

    def words(self, ids: Sequence[int], prompt: int) -> list[list[int]]:
        """Return the positions of the tokens of each word. prompt: the number of tokens at the
        beginning that say what to write, each of which is a word."""
        words = positions_of_words(self.tokenizer, ids[prompt:])
        return [[i] for i in range(prompt)] + [[prompt + i for i in word] for word in words]

    def contents(self) -> tuple[TextTokenizer, dict[str, object]]:
        """See `StoredReader`."""
        return self.tokenizer, asdict(self.tokens)

    @classmethod
    def load(cls, folder: Path) -> TranscriptReader:
        """Load the files that `save` wrote. Raises DataError if they are invalid."""
        tokenizer = load_tokenizer(folder)
        settings = cls.load_settings(
            folder, _are_tokens, "the tokens that the decoder of a transcriber reads first"
        )
        return cls(tokenizer, SpeechTokens(**{key: settings[key] for key in _KEYS}))


_KEYS = [field.name for field in fields(SpeechTokens)]


def _are_tokens(settings: dict[str, Any]) -> bool:
    languages = settings.get("languages")
    if not isinstance(languages, dict) or not all(is_count(i, 0) for i in languages.values()):
        return False
    if not all(is_count(settings.get(key), 0) for key in ("start", "no_timestamps")):
        return False
    optional = ("transcribe", "translate", "latest_start")
    return all(key in settings for key in _KEYS) and all(
        settings[key] is None or is_count(settings[key], 0) for key in optional
    )
