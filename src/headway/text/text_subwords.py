"""The byte-level tokenizers of language models: they keep every space of a running text."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import tokenizers

from headway.base.files import write_file
from headway.text.bpe import BYTE_PAIRS
from headway.text.byte_level import EOS, ByteLevel, readable
from headway.text.unigram import UNIGRAM

FILE = "tokenizer.json"


class TextSubwords(ByteLevel):
    """A byte-level tokenizer with one special token, </s>, which ends a text and starts the next
    one.

    decode(encode(text)) == text for every text. A `TextTokenizer`, like that of GPT-2, whose
    special token is <|endoftext|>.
    """

    specials: ClassVar[tuple[str, ...]] = (EOS,)
    leading_space: ClassVar[bool] = False

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self.bos = self.eos = self.special_ids[EOS]
        self.ends = (self.eos,)

    def begin(self, text: str) -> list[int]:
        """Return the ids of `text` at the start of a text, that is, after the token </s>."""
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; </s> is skipped, broken characters become U+FFFD."""
        return readable(self._raw(ids))

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` durably in the Hugging Face format."""
        write_file(folder / FILE, self._json())


class TextBPE(TextSubwords):
    """Byte-level BPE for running text."""

    subwords = BYTE_PAIRS


class TextUnigram(TextSubwords):
    """A byte-level Unigram language model for running text."""

    subwords = UNIGRAM
