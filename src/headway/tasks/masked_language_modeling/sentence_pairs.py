"""Plans the sentences of each sequence: pairs for next-sentence prediction, or full sentences.

A plan is one pass over a corpus as a matrix with one row per sequence: (first, last) sentence of
the first text, (first, last) of the second text (equal if there is none), whether the second text
does not follow the first, and the index of the corpus of the second text. `last` is exclusive. The
plan depends only on (corpora, settings, key).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headway.tasks.masked_language_modeling.data import SentenceCorpus

Plan = npt.NDArray[np.int64]
FIRST, FIRST_END, SECOND, SECOND_END, ELSEWHERE, CORPUS = range(6)
SAME_CORPUS = -1  # instead of the index of a corpus: the corpus of the first text
FAR = 4  # with a single document, the second text is a quarter of the corpus away


@dataclass(frozen=True)
class CorpusMixture:
    """Corpora from which second texts are sampled, and the probability of each."""

    corpora: Sequence[SentenceCorpus]
    probabilities: npt.NDArray[np.float64]

    @classmethod
    def among(cls, corpora: Sequence[SentenceCorpus], smoothing: float) -> CorpusMixture:
        """Sample corpus i with probability p_i^a / sum_j p_j^a, where p_i is its fraction of the
        tokens and a is `smoothing`."""
        tokens = np.array([corpus.tokens for corpus in corpora], np.float64)
        probabilities = (tokens / tokens.sum()) ** smoothing
        return cls(corpora, probabilities / probabilities.sum())


def full_sentence_plan(corpus: SentenceCorpus, room: int, key: list[int]) -> Plan:
    """Plan sequences of as many consecutive whole sentences as fit into `room` tokens.

    Sequences may cross document borders, where an additional [SEP] is inserted. A pass starts at a
    random sentence of the first sequence. Liu et al. 2019, section 4.2 ("full-sentences").
    """
    borders = np.zeros(len(corpus), np.int64)
    borders[corpus.documents[1:-1]] = 1
    sums = np.concatenate(([0], np.cumsum(corpus.lengths + borders)))
    first = int(np.searchsorted(sums, room, side="right")) - 1
    at = int(np.random.default_rng(key).integers(max(1, min(first, len(corpus) // 2))))
    sequences = []
    while at < len(corpus):
        # the border before the first sentence is not part of the sequence
        last = int(np.searchsorted(sums, sums[at] + borders[at] + room, side="right")) - 1
        last = min(max(last, at + 1), len(corpus))
        sequences.append((at, last, 0, 0, 0, SAME_CORPUS))
        at = last
    return np.array(sequences, np.int64).reshape(-1, CORPUS + 1)


def sentence_pair_plan(
    corpus: SentenceCorpus,
    room: int,
    short: float,
    key: list[int],
    anywhere: CorpusMixture | None = None,
) -> Plan:
    """Plan pairs of texts of one or more sentences, with a total of about `room` tokens.

    In half of the sequences the second text follows the first in its document; in the other half it
    is from another document. The fraction `short` of the sequences has a random smaller target
    length (at least 2 tokens). If the second text is replaced, the sentences that followed start
    the next sequence. The replacement starts at a random sentence of the other documents; if there
    is only one document, at a sentence of it, if possible a quarter of the document away. If
    `anywhere` is given, one of its corpora is sampled first; it includes this corpus. Devlin et al.
    2019, appendix A.2 and released code. Unlike there, a last sentence without a successor does not
    start a sequence, so that the halves are equal.
    """
    sums = corpus.sums
    sequences: list[tuple[int, ...]] = []
    borders = corpus.documents.tolist()
    for number, (at, end) in enumerate(pairwise(borders)):
        random = np.random.default_rng([*key, number])
        while end - at >= 2:
            target = int(random.integers(2, room + 1)) if random.random() < short else room
            last = int(np.searchsorted(sums, sums[at] + target))  # first that reaches the target
            last = min(max(last, at + 2), end)
            cut = int(random.integers(at + 1, last))
            sequence, at = (at, cut, cut, last, 0, SAME_CORPUS), last
            if random.random() < 0.5:
                corpus_number = _drawn(corpus, anywhere, random)
                if corpus_number != SAME_CORPUS and anywhere is not None:
                    second_corpus = anywhere.corpora[corpus_number]
                    second_first: int | None = int(random.integers(len(second_corpus)))
                else:
                    second_corpus = corpus
                    second_first = _elsewhere(
                        borders[number], end, sequence[0], last, len(corpus), random
                    )
                if second_first is not None:
                    room_left = target - int(sums[cut] - sums[sequence[0]])
                    sequence = (
                        sequence[0],
                        cut,
                        second_first,
                        _stop(second_corpus, second_first, room_left),
                        1,
                        corpus_number,
                    )
                    at = cut
            sequences.append(sequence)
    return np.array(sequences, np.int64).reshape(-1, CORPUS + 1)


def _drawn(
    corpus: SentenceCorpus, anywhere: CorpusMixture | None, random: np.random.Generator
) -> int:
    """Sample the index of the corpus of a second text."""
    if anywhere is None:
        return SAME_CORPUS
    corpus_number = int(random.choice(len(anywhere.probabilities), p=anywhere.probabilities))
    return SAME_CORPUS if anywhere.corpora[corpus_number] is corpus else corpus_number


def _stop(corpus: SentenceCorpus, first: int, tokens: int) -> int:
    """Return the end (exclusive) of a text of about `tokens` tokens that starts at sentence
    `first`, within its document."""
    stop = int(np.searchsorted(corpus.sums, corpus.sums[first] + tokens))
    end = int(corpus.documents[np.searchsorted(corpus.documents, first, side="right")])
    return min(max(stop, first + 1), end)


def _elsewhere(
    start: int, end: int, first: int, last: int, total: int, random: np.random.Generator
) -> int | None:
    """Return a random sentence outside the document [start, end).

    If there is no other document, return one far from the sentences [first, last) of the sequence,
    or None if there is none.
    """
    if total > end - start:
        sentence = int(random.integers(total - (end - start)))
        return sentence if sentence < start else sentence + end - start
    for far in (total // FAR, total // (2 * FAR), 0):
        before, after = max(0, first - far), min(total, last + far)
        if num_candidates := before + total - after:
            sentence = int(random.integers(num_candidates))
            return sentence if sentence < before else sentence + after - before
    return None


def fitted(
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    room: int,
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Truncate two texts to a total of `room` tokens: remove tokens of the longer one, at a random
    end each.

    Devlin et al. 2019, released code (truncate_seq_pair).
    """
    a, b = len(first), len(second)
    over = max(0, a + b - room)
    level = min(over, abs(a - b))
    halves = (over - level) // 2
    removed_a = (level if a >= b else 0) + halves + (over - level) % 2
    removed = (removed_a, over - removed_a)
    texts = []
    for text, count in zip((first, second), removed, strict=True):
        front = int(random.binomial(count, 0.5)) if count else 0
        texts.append(text[front : len(text) - (count - front)])
    return texts[0], texts[1]
