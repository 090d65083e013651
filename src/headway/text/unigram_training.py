"""Learns the vocabulary of a Unigram language model by EM and pruning (Kudo 2018, section 3.2).

1. The seed vocabulary has the 256 bytes and the most frequent parts of words.
2. EM maximises the likelihood L = Σ_w count(w) log Σ_{x ∈ S(w)} Π_i p(x_i), where S(w) are all
   segmentations of a word w: the E-step computes the expected count of each token by the
   forward-backward algorithm, and the M-step divides it by the sum.
3. The tokens whose loss is smallest are removed. loss(x) = c(x) (log p(x) - log p(best split of x
   into other tokens)) is how much the log-likelihood falls without x, if c(x) is its expected
   count. Bytes are never removed.

2 and 3 are repeated until the vocabulary has the requested size. All words are computed together: a
word is a range of `letters`, and `edges[l - 1, p]` is the token that the l letters from position p
on are.

The trainer of the package tokenizers is not used, because it does not repeat its result: four
trainings on the same lines gave four different files, on one thread too, since it adds the expected
counts in the order of a hash map. The fingerprint of a tokenizer, and with it a run, would differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.text.engine import BYTE_OF_LETTER

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BYTES = 256
LONGEST_TOKEN = 16  # bytes
MOST_WORDS = 200_000  # different words, the most frequent ones; it bounds the memory
SEEDS = 12  # tokens of the seed vocabulary for each one that is kept
KEPT = 0.75  # fraction of the tokens that a round of pruning keeps
ITERATIONS = 2  # of EM between two rounds of pruning
LEAST = 0.5  # expected count below which a token is removed
DECIMALS = 6  # of the log-probabilities, so that rounding errors do not reach the file


@dataclass(frozen=True)
class _Words:
    """Ranges of the letters of a corpus: words, or the parts of them that are tokens.

    They are sorted by length, longest first. starts: position of the first letter. lengths: the
    number of letters.
    """

    starts: Ints
    lengths: Ints


@dataclass(frozen=True)
class _Vocabulary:
    """Tokens: the 256 bytes, and then parts of words. log_p: log-probability of each.

    edges: the token of the l letters from position p on at [l - 1, p], or -1. firsts, lengths: a
    position at which each part of words occurs, and its length.
    """

    log_p: Floats
    edges: NDArray[np.int32]
    firsts: Ints
    lengths: Ints

    def only(self, kept: NDArray[np.bool_]) -> _Vocabulary:
        """Return the vocabulary with those of the parts of words that are True in `kept`."""
        all_kept = np.concatenate((np.ones(BYTES, dtype=bool), kept))
        new_ids = np.where(all_kept, np.cumsum(all_kept) - 1, -1).astype(np.int32)
        return _Vocabulary(
            self.log_p[all_kept],
            np.append(new_ids, np.int32(-1))[self.edges],  # -1 stays -1
            self.firsts[kept],
            self.lengths[kept],
        )


def learn_unigram(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Return the tokens of a Unigram model and their log-probabilities, the most probable first.

    counts: how often each word occurs, in letters of the byte-level alphabet. size: maximum number
    of tokens, at least 256. Deterministic.
    """
    corpus = _Corpus(counts)
    vocabulary = corpus.seeds(SEEDS * (size - BYTES))
    while True:
        for _ in range(ITERATIONS):
            expected = corpus.expected_counts(vocabulary)
            vocabulary, expected = _maximised(vocabulary, expected)
        excess = len(vocabulary.firsts) - (size - BYTES)
        if excess <= 0:
            break
        num_kept = max(size - BYTES, int(KEPT * len(vocabulary.firsts)))
        best = np.argsort(-_losses(vocabulary, expected), kind="stable")[:num_kept]
        kept = np.zeros(len(vocabulary.firsts), dtype=bool)
        kept[best] = True
        vocabulary = vocabulary.only(kept)
    return corpus.named(vocabulary)


class _Corpus:
    """The different words of a corpus, one after the other, with the number of times they occur."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
        words = sorted(frequent, key=lambda word: (-len(word), word))
        numbers = bytes(BYTE_OF_LETTER[letter] for word in words for letter in word)
        self.letters = np.frombuffer(numbers, dtype=np.uint8).astype(np.int64)
        lengths = np.array([len(word) for word in words], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if words else lengths
        self.words = _Words(starts.astype(np.int64), lengths)
        self.word_of = np.repeat(np.arange(len(words)), lengths)
        self.counts = np.array([counts[word] for word in words], dtype=np.float64)

    def seeds(self, most: int) -> _Vocabulary:
        """Return the bytes and the `most` parts of words with the largest count x length.

        A part occurs twice only if its parts do: those of l letters are found from those of l - 1.
        """
        size = len(self.letters)
        longest = int(min(LONGEST_TOKEN, max(self.words.lengths, default=1)))
        weights = self.counts[self.word_of]
        left = (self.words.starts + self.words.lengths)[self.word_of] - np.arange(size)
        ids = np.full((longest, size), -1, dtype=np.int32)
        ids[0] = self.letters
        scores, firsts, lengths = [], [], []
        total = BYTES
        for length in range(2, longest + 1):
            before, at = ids[length - 2], np.arange(size - length + 1)
            at = at[(left[at] >= length) & (before[at] >= 0) & (before[at + 1] >= 0)]
            keys = before[at].astype(np.int64) * BYTES + self.letters[at + length - 1]
            _, first, which = np.unique(keys, return_index=True, return_inverse=True)
            occurrences = np.bincount(which, weights[at], minlength=len(first))
            repeated = occurrences >= 2
            new_ids = np.where(repeated, total + np.cumsum(repeated) - 1, -1)
            ids[length - 1, at] = new_ids[which]
            total += int(repeated.sum())
            scores.append(occurrences[repeated] * length)
            firsts.append(at[first[repeated]])
            lengths.append(np.full(int(repeated.sum()), length))
        score = np.concatenate([np.zeros(0), *scores])
        found = _Vocabulary(
            np.full(total, -np.log(total)),
            ids,
            np.concatenate([np.zeros(0, dtype=np.int64), *firsts]),
            np.concatenate([np.zeros(0, dtype=np.int64), *lengths]),
        )
        kept = np.zeros(len(score), dtype=bool)
        kept[np.argsort(-score, kind="stable")[:most]] = True
        seeds = found.only(kept)
        byte_counts = np.bincount(self.letters, weights, minlength=BYTES)
        log_p = _log_p(np.concatenate((byte_counts, score[kept])))
        return replace(seeds, log_p=log_p)

    def expected_counts(self, vocabulary: _Vocabulary) -> Floats:
        """Return the expected count of each token in all segmentations of the words (E-step).

        With A(t) and B(t), the probabilities of the letters before and after position t, the
        probability that token x spans s .. t in a word of n letters is A(s) p(x) B(t) / A(n).
        """
        edges, log_p = vocabulary.edges, np.append(vocabulary.log_p, -np.inf)
        before = _forward(edges, log_p, self.words, np.logaddexp.reduce)
        after = _backward(edges, log_p, self.words)
        starts, lengths = self.words.starts, self.words.lengths
        bounds = starts + np.arange(len(starts))  # a word of n letters has n + 1 positions
        whole = before[bounds + lengths]
        counts = np.zeros(len(vocabulary.log_p))
        for length, tokens in enumerate(edges, start=1):
            at = np.flatnonzero(tokens >= 0)
            word, token = self.word_of[at], tokens[at]
            bound = at + word
            log_posterior = before[bound] + log_p[token] + after[bound + length] - whole[word]
            weights = self.counts[word] * np.exp(log_posterior)
            counts += np.bincount(token, weights, minlength=len(counts))
        return counts

    def named(self, vocabulary: _Vocabulary) -> list[tuple[str, float]]:
        """Return the tokens in letters, with their rounded log-probabilities, sorted."""
        letter_of = {byte: letter for letter, byte in BYTE_OF_LETTER.items()}
        names = [letter_of[byte] for byte in range(BYTES)]
        for first, length in zip(vocabulary.firsts, vocabulary.lengths, strict=True):
            part = self.letters[first : first + length].tolist()
            names.append("".join(letter_of[byte] for byte in part))
        log_p = [round(float(value), DECIMALS) for value in vocabulary.log_p]
        return sorted(zip(names, log_p, strict=True), key=lambda pair: (-pair[1], pair[0]))


def _maximised(vocabulary: _Vocabulary, expected: Floats) -> tuple[_Vocabulary, Floats]:
    """Return the vocabulary with new probabilities (M-step), without tokens that are hardly used,
    and the expected counts of those that remain."""
    kept = expected[BYTES:] >= LEAST
    remaining = vocabulary.only(kept)
    expected = np.concatenate((expected[:BYTES], expected[BYTES:][kept]))
    return replace(remaining, log_p=_log_p(expected)), expected


def _log_p(counts: Floats) -> Floats:
    """Return log(count / sum of the counts); a byte that does not occur counts as `LEAST`."""
    at_least = np.maximum(counts, LEAST)
    return np.asarray(np.log(at_least) - np.log(at_least.sum()))


def _losses(vocabulary: _Vocabulary, expected: Floats) -> Floats:
    """Return how much the log-likelihood falls without each token that is a part of words."""
    order = np.argsort(-vocabulary.lengths, kind="stable")
    tokens = _Words(vocabulary.firsts[order], vocabulary.lengths[order])
    log_p = np.append(vocabulary.log_p, -np.inf)
    scores = _forward(vocabulary.edges, log_p, tokens, np.maximum.reduce, whole=False)
    ends = np.cumsum(tokens.lengths + 1) - 1
    split = np.empty(len(order))
    split[order] = scores[ends]
    loss: Floats = expected[BYTES:] * (vocabulary.log_p[BYTES:] - split)
    return loss


def _forward(
    edges: NDArray[np.int32], log_p: Floats, words: _Words, total: Any, *, whole: bool = True
) -> Floats:
    """Return A(t) of all positions of all words: log Σ_s A(s) p(s .. t), or the maximum over s.

    total: adds (or maximises) the log-probabilities of the last axis. log_p ends with -inf, for
    edges without a token. whole: whether a word may be a single token.
    """
    starts, lengths = words.starts, words.lengths
    bounds = np.concatenate(([0], np.cumsum(lengths + 1)))[:-1].astype(np.int64)
    scores = np.zeros(int((lengths + 1).sum()))
    for t in range(1, int(max(lengths, default=0)) + 1):
        active = int(np.searchsorted(-lengths, -t, side="right"))  # words of at least t letters
        at, bound = starts[:active] + t, bounds[:active] + t
        steps = range(1, min(t, len(edges)) + 1)
        ways = np.stack([scores[bound - n] + log_p[edges[n - 1, at - n]] for n in steps], axis=1)
        if not whole and t <= len(edges):
            ways[lengths[:active] == t, t - 1] = -np.inf
        scores[bound] = total(ways, axis=1)
    return scores


def _backward(edges: NDArray[np.int32], log_p: Floats, words: _Words) -> Floats:
    """Return B(t) of all positions of all words: log Σ_u p(t .. u) B(u)."""
    starts, lengths = words.starts, words.lengths
    bounds = np.concatenate(([0], np.cumsum(lengths + 1)))[:-1].astype(np.int64)
    scores = np.zeros(int((lengths + 1).sum()) + len(edges))  # edges beyond a word have no token
    for t in range(int(max(lengths, default=0)) - 1, -1, -1):
        active = int(np.searchsorted(-lengths, -t, side="left"))  # words of more than t letters
        at, bound = starts[:active] + t, bounds[:active] + t
        steps = range(1, len(edges) + 1)
        ways = np.stack([scores[bound + n] + log_p[edges[n - 1, at]] for n in steps], axis=1)
        scores[bound] = np.logaddexp.reduce(ways, axis=1)
    return scores
