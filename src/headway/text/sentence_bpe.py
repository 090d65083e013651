"""The byte-level BPE tokenizer of translation models: a word has the same tokens at the start of a
sentence and inside it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import tokenizers

from headway.files import write_file
from headway.text.bpe import BOS, EOS, PAD, BytePairs, readable
from headway.text.token_ids import checked_ids


class Tokenizer(BytePairs):
    """Byte-level BPE with the special tokens <pad>, <s> and </s>; their ids are `pad`, `bos` and
    `eos`.

    A space is added before the first word, so that a word has the same tokens at the start of a
    sentence and inside it.
    """

    specials: ClassVar[tuple[str, ...]] = (PAD, BOS, EOS)
    leading_space: ClassVar[bool] = True

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self.pad, self.bos, self.eos = (self.special_ids[name] for name in self.specials)

    def save(self, path: Path) -> None:
        """Write the tokenizer durably as one JSON file in the Hugging Face format."""
        write_file(path, self._json())

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; special tokens are skipped, broken characters become U+FFFD.

        decode(encode(text)) == text for every text that does not begin with a space: the space
        before the first word is removed, because `encode` added it. Raises DataError for an id
        outside 0 .. size-1.
        """
        return readable(self._raw(ids).removeprefix(b" "))

    def words(self, ids: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Return the words of `ids`, each with the positions of its tokens in `ids`.

        A word begins at the first token, at each token that starts with a space, and after a
        special token. A special token is a word of its own. The words do not include the space, so
        without special tokens " ".join(word for word, _ in words(ids)) == decode(ids).
        """
        groups: list[list[int]] = []
        known = checked_ids(ids, self.size)
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
