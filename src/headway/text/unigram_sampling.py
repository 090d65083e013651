"""Subword regularisation: segmentations sampled from a Unigram model (Kudo 2018, section 3.3).

A segmentation x of a word X has the probability

    P_α(x | X) = P(x)^α / Σ_{x' ∈ S(X)} P(x')^α,    P(x) = Π_i p(x_i),

where S(X) are all segmentations of X into tokens. α = 0 is the uniform distribution over them, and
a large α gives the most probable one. Forward filtering sums over all segmentations of the letters
before position t,

    A(0) = 1,    A(t) = Σ_{s < t: X[s:t] is a token} A(s) p(X[s:t])^α,

and backward sampling draws the tokens from the last to the first: the token that ends at t begins
at s with probability A(s) p(X[s:t])^α / A(t).
"""

import math
from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from random import Random

from headway.text.random_splitter import RandomSplitter
from headway.text.sentence_subwords import UnigramTokenizer

_CACHED = 10_000  # words whose lattices are kept
_LONGEST_CACHED = 40  # letters


class Lattice:
    """All segmentations of a word, to sample from.

    word: in letters. log_p: log-probability of each token. longest: the maximum number of letters
    of a token. alpha: the exponent α, at least 0. Every letter must be a token.
    """

    def __init__(self, word: str, log_p: Mapping[str, float], longest: int, alpha: float) -> None:
        self.word = word
        self.log_total = [0.0]  # log A(t)
        self._starts: list[list[int]] = [[]]
        self._cumulative: list[list[float]] = [[]]
        for t in range(1, len(word) + 1):
            starts = [s for s in range(max(0, t - longest), t) if word[s:t] in log_p]
            ways = [self.log_total[s] + alpha * log_p[word[s:t]] for s in starts]
            highest = max(ways)
            weights = [math.exp(way - highest) for way in ways]
            self.log_total.append(highest + math.log(sum(weights)))
            self._starts.append(starts)
            self._cumulative.append(list(accumulate(weights)))

    def sample(self, random: Random) -> list[str]:
        """Return the tokens of one segmentation."""
        tokens = []
        t = len(self.word)
        while t:
            cumulative = self._cumulative[t]
            drawn = bisect(cumulative, random.random() * cumulative[-1], hi=len(cumulative) - 1)
            s = self._starts[t][drawn]
            tokens.append(self.word[s:t])
            t = s
        return tokens[::-1]


def best_segmentation(word: str, log_p: Mapping[str, float], longest: int) -> list[str]:
    """Return the most probable segmentation of a word, by the Viterbi algorithm.

    M(0) = 0, M(t) = max_s M(s) + log p(X[s:t]); the starts of the maxima are followed back from the
    end. The plain twin of what the tokenizer's engine computes.
    """
    best, start_of = [0.0], [0]
    for t in range(1, len(word) + 1):
        starts = [s for s in range(max(0, t - longest), t) if word[s:t] in log_p]
        scores = [best[s] + log_p[word[s:t]] for s in starts]
        best.append(max(scores))
        start_of.append(starts[scores.index(best[-1])])
    tokens, t = [], len(word)
    while t:
        tokens.append(word[start_of[t] : t])
        t = start_of[t]
    return tokens[::-1]


class UnigramSampling(RandomSplitter):
    """Samples segmentations of words from the Unigram model of a tokenizer.

    alpha: the exponent α of the probabilities, at least 0; 0.1 to 0.5 are usual.
    """

    def __init__(self, tokenizer: UnigramTokenizer, alpha: float) -> None:
        if not 0 <= alpha < math.inf:
            raise ValueError(f"{alpha=} must be finite and at least 0")
        super().__init__(tokenizer)
        self.log_p = tokenizer.log_probabilities()
        self.longest = max(map(len, self.log_p))
        self.alpha = alpha
        self._cached = lru_cache(_CACHED)(self._lattice)

    def split(self, word: str, random: Random) -> list[str]:
        make = self._cached if len(word) <= _LONGEST_CACHED else self._lattice
        return make(word).sample(random)

    def _lattice(self, word: str) -> Lattice:
        return Lattice(word, self.log_p, self.longest, self.alpha)
