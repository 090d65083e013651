"""Which sentences stand in a row together: pairs of texts, or as much text as fits.

A plan is one pass over a corpus as a matrix, one row of numbers for each row to be read:
(first, last) of the sentences of the first text, (first, last) of the second one (empty where there
is none), whether the second stands elsewhere, and the number of the corpus it stands in, of those
that it may come from; `last` is the sentence after. It follows from (corpora, settings, key) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headway.data.sentences import SentenceCorpus

Plan = npt.NDArray[np.int64]
FIRST, FIRST_END, SECOND, SECOND_END, ELSEWHERE, CORPUS = range(6)
OWN = -1  # in place of a corpus's number: that of the first text
FAR = 4  # the second text is a quarter of the corpus away where there is one document only


@dataclass(frozen=True)
class Elsewhere:
    """Corpora that a second text may come from, and the share of each."""

    corpora: Sequence[SentenceCorpus]
    shares: npt.NDArray[np.float64]

    @classmethod
    def among(cls, corpora: Sequence[SentenceCorpus], smoothing: float) -> Elsewhere:
        """p_i^a / sum_j p_j^a, where p_i is a corpus's share of the tokens and a is `smoothing`."""
        tokens = np.array([corpus.tokens for corpus in corpora], np.float64)
        shares = (tokens / tokens.sum()) ** smoothing
        return cls(corpora, shares / shares.sum())


def full_rows(corpus: SentenceCorpus, room: int, key: list[int]) -> Plan:
    """Whole sentences one after the other, as many as fit into `room` tokens, over the borders of
    documents, where a [SEP] more stands. A pass begins at any sentence of what would be its first
    row. Liu et al. 2019, section 4.2 ("full-sentences")."""
    borders = np.zeros(len(corpus), np.int64)
    borders[corpus.documents[1:-1]] = 1
    sums = np.concatenate(([0], np.cumsum(corpus.lengths + borders)))
    first = int(np.searchsorted(sums, room, side="right")) - 1
    at = int(np.random.default_rng(key).integers(max(1, min(first, len(corpus) // 2))))
    rows = []
    while at < len(corpus):
        # the border before the first sentence is not in the row
        last = int(np.searchsorted(sums, sums[at] + borders[at] + room, side="right")) - 1
        last = min(max(last, at + 1), len(corpus))
        rows.append((at, last, 0, 0, 0, OWN))
        at = last
    return np.array(rows, np.int64).reshape(-1, CORPUS + 1)


def pair_rows(
    corpus: SentenceCorpus,
    room: int,
    short: float,
    key: list[int],
    anywhere: Elsewhere | None = None,
) -> Plan:
    """Two texts of one or more sentences each, together about `room` tokens: in half of the rows
    the second follows the first in its document, in half it stands in another one.

    A share of `short` of the rows aims at any smaller length (at least 2 tokens). Where the second
    text stands elsewhere, what followed is the beginning of the next row. Elsewhere is any sentence
    of the other documents; of the same one, a quarter of it away if possible, where there is no
    other. With `anywhere`, which has this corpus too, one of its corpora is drawn first. Devlin et
    al. 2019, appendix A.2 and released code; unlike theirs, a last sentence without a successor
    begins no row, so that the halves are equal.
    """
    sums = corpus.sums
    rows: list[tuple[int, ...]] = []
    borders = corpus.documents.tolist()
    for number, (at, end) in enumerate(pairwise(borders)):
        random = np.random.default_rng([*key, number])
        while end - at >= 2:
            target = int(random.integers(2, room + 1)) if random.random() < short else room
            last = int(np.searchsorted(sums, sums[at] + target))  # the first that reaches it
            last = min(max(last, at + 2), end)
            cut = int(random.integers(at + 1, last))
            row, at = (at, cut, cut, last, 0, OWN), last
            if random.random() < 0.5:
                which = _drawn(corpus, anywhere, random)
                if which != OWN and anywhere is not None:
                    there = anywhere.corpora[which]
                    other: int | None = int(random.integers(len(there)))
                else:
                    there = corpus
                    other = _elsewhere(borders[number], end, row[0], last, len(corpus), random)
                if other is not None:
                    room_left = target - int(sums[cut] - sums[row[0]])
                    row = (row[0], cut, other, _stop(there, other, room_left), 1, which)
                    at = cut
            rows.append(row)
    return np.array(rows, np.int64).reshape(-1, CORPUS + 1)


def _drawn(corpus: SentenceCorpus, anywhere: Elsewhere | None, random: np.random.Generator) -> int:
    """The number of the corpus that a second text comes from."""
    if anywhere is None:
        return OWN
    which = int(random.choice(len(anywhere.shares), p=anywhere.shares))
    return OWN if anywhere.corpora[which] is corpus else which


def _stop(corpus: SentenceCorpus, first: int, tokens: int) -> int:
    """The sentence after a text of about so many tokens that begins with `first`, in its
    document."""
    stop = int(np.searchsorted(corpus.sums, corpus.sums[first] + tokens))
    end = int(corpus.documents[np.searchsorted(corpus.documents, first, side="right")])
    return min(max(stop, first + 1), end)


def _elsewhere(
    start: int, end: int, first: int, last: int, total: int, random: np.random.Generator
) -> int | None:
    """Any sentence outside the document [start, end); if it is all there is, one far from the row's
    [first, last) in it, and None where there is none."""
    if total > end - start:
        other = int(random.integers(total - (end - start)))
        return other if other < start else other + end - start
    for far in (total // FAR, total // (2 * FAR), 0):
        before, after = max(0, first - far), min(total, last + far)
        if left := before + total - after:
            other = int(random.integers(left))
            return other if other < before else other + after - before
    return None


def fitted(
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    room: int,
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Both texts cut to `room` tokens together: the longer one loses, at its two ends by chance.

    Devlin et al. 2019, released code (truncate_seq_pair).
    """
    a, b = len(first), len(second)
    over = max(0, a + b - room)
    level = min(over, abs(a - b))
    halves = (over - level) // 2
    lost_a = (level if a >= b else 0) + halves + (over - level) % 2
    lost = (lost_a, over - lost_a)
    texts = []
    for text, drop in zip((first, second), lost, strict=True):
        front = int(random.binomial(drop, 0.5)) if drop else 0
        texts.append(text[front : len(text) - (drop - front)])
    return texts[0], texts[1]
