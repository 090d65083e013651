"""BPE-dropout: a text is split into other tokens each time (Provilkov et al. 2020, algorithm 1).

A model that sees one word in many splits learns what its parts mean, which helps most with little
data. Only training texts are split at random; translation uses the plain tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from random import Random

from headway.text.sentence_bpe import Tokenizer


class BPEDropout:
    """Encodes texts with the merges of a tokenizer, each left out with a probability.

    At each step every possible merge of two adjacent tokens of a word is left out with
    `probability`, and the best of the others is applied; a word is finished when none is left.
    probability: 0 gives the tokens of the tokenizer, 1 single bytes.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(f"{probability=} must be between 0 and 1")
        self._tokenizer, self._probability = tokenizer, probability
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges())}
        self._ids = tokenizer.ids_by_letters()
        self._tags = frozenset(tokenizer.special_ids.values())

    def encode(self, text: str, random: Random) -> list[int]:
        """Return the ids of one random split of a text, without special tokens."""
        return [
            self._ids[token]
            for word in self._tokenizer.words_in_letters(text)
            for token in self._split(list(word), random)
        ]

    def again(self, ids: Sequence[int], random: Random) -> list[int]:
        """Return the ids of another split of a text that the tokenizer encoded as `ids`.

        Tags at its start are kept.
        """
        tags = list(takewhile(self._tags.__contains__, ids))
        return [*tags, *self.encode(self._tokenizer.decode(ids), random)]

    def _split(self, tokens: list[str], random: Random) -> list[str]:
        ranks, probability, draw = self._ranks, self._probability, random.random
        worst = len(ranks)
        while len(tokens) > 1:
            lowest, at = worst, -1
            for i in range(len(tokens) - 1):
                rank = ranks.get((tokens[i], tokens[i + 1]), worst)
                # a merge that is not the best so far need not be drawn
                if rank < lowest and draw() >= probability:
                    lowest, at = rank, i
            if at < 0:
                break
            tokens[at : at + 2] = [tokens[at] + tokens[at + 1]]
        return tokens
