"""The language models' tokenizer: byte-level pieces of running text, every space as it stands."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import tokenizers

from headway.files import write_file
from headway.text.bpe import EOS, BytePairs, readable

FILE = "tokenizer.json"


class TextPieces(BytePairs):
    """Byte pairs with one special token, </s>, which ends a text and so begins the next one.

    decode(encode(text)) == text for every text. As a `TextTokenizer` it stands in for GPT-2's,
    whose special token is <|endoftext|>.
    """

    specials: ClassVar[tuple[str, ...]] = (EOS,)
    leading_space: ClassVar[bool] = False

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self.bos = self.eos = self.special_ids[EOS]

    def begin(self, text: str) -> list[int]:
        """Ids of `text` where a text begins: after an end of text."""
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; the special token is skipped, broken characters become U+FFFD."""
        return readable(self._raw(ids))

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` in the Hugging Face form, durably."""
        write_file(folder / FILE, self._json())
