"""The translators' tokenizer: pieces of sentences, a word the same wherever it stands."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import tokenizers

from headway.files import write_file
from headway.text.bpe import BOS, EOS, PAD, BytePairs, readable


class Tokenizer(BytePairs):
    """Byte pairs with <pad>, <s> and </s>, whose ids are `pad`, `bos` and `eos`.

    A space is put before the first word, so that a word has the same pieces at the start of a
    sentence and inside it.
    """

    specials: ClassVar[tuple[str, ...]] = (PAD, BOS, EOS)
    leading_space: ClassVar[bool] = True

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self.pad, self.bos, self.eos = (self.special_ids[name] for name in self.specials)

    def save(self, path: Path) -> None:
        """Write the tokenizer as one JSON file in the Hugging Face form, durably."""
        write_file(path, self._json())

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens are skipped, broken characters become U+FFFD.

        decode(encode(text)) == text for every text that does not begin with a space: the first
        word's space is taken away, as it is the one that `encode` put there. Raises DataError for
        an id outside 0 .. size-1.
        """
        return readable(self._raw(ids).removeprefix(b" "))

    def words(self, ids: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Words and, for each, the positions of its pieces in `ids`.

        A word begins at each piece that starts with a space, at the first piece, and around special
        tokens, which are words of their own. The space is left out, so that without special tokens
        " ".join(word for word, _ in words(ids)) == decode(ids).
        """
        groups: list[list[int]] = []
        known = self._known(ids)
        after_special = True
        for position, index in enumerate(known):
            special = index in self._specials
            if special or after_special or self._bytes[index].startswith(b" "):
                groups.append([position])
            else:
                groups[-1].append(position)
            after_special = special
        return [(self._word([known[p] for p in positions]), positions) for positions in groups]

    def _word(self, ids: Sequence[int]) -> str:
        if ids[0] in self._specials:
            return self._specials[ids[0]]
        return readable(self._raw(ids).removeprefix(b" "))
