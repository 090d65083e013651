"""BPE-dropout: a text is split into other tokens each time (Provilkov et al. 2020, algorithm 1)."""

from random import Random

from headway.text.random_splitter import RandomSplitter
from headway.text.sentence_subwords import Tokenizer


class BPEDropout(RandomSplitter):
    """Splits words by the merges of a tokenizer, each left out with a probability.

    At each step every possible merge of two adjacent tokens of a word is left out with
    `probability`, and the best of the others is applied; a word is finished when none is left.
    probability: 0 gives the tokens of the tokenizer, 1 single bytes.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(f"{probability=} must be between 0 and 1")
        super().__init__(tokenizer)
        self._probability = probability
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges())}

    def split(self, word: str, random: Random) -> list[str]:
        tokens = list(word)
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
