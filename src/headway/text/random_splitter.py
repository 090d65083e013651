"""What BPE-dropout and Unigram sampling have in common: a text is split into other tokens."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import takewhile
from random import Random

from headway.text.sentence_subwords import SentenceSubwords


class RandomSplitter(ABC):
    """Encodes texts by random segmentations of their words into tokens of a tokenizer.

    From a word in many segmentations a model learns what its parts mean, which helps most
    with little data. Only training texts are split at random.
    """

    def __init__(self, tokenizer: SentenceSubwords) -> None:
        self._subwords = tokenizer
        self._ids = tokenizer.ids_by_letters()
        self._tags = frozenset(tokenizer.special_ids.values())

    def encode(self, text: str, random: Random) -> list[int]:
        """Return the ids of one random segmentation of a text, without special tokens."""
        return [
            self._ids[token]
            for word in self._subwords.words_in_letters(text)
            for token in self.split(word, random)
        ]

    def again(self, ids: Sequence[int], random: Random) -> list[int]:
        """Return the ids of another segmentation of a text that the tokenizer encoded as `ids`.

        Tags at its start are kept.
        """
        tags = list(takewhile(self._tags.__contains__, ids))
        return [*tags, *self.encode(self._subwords.decode(ids), random)]

    @abstractmethod
    def split(self, word: str, random: Random) -> list[str]:
        """Return the tokens of one random segmentation of a word; both are in letters of the
        byte-level alphabet."""
