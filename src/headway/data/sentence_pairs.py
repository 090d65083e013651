"""Which sentences stand in a row together: pairs of texts, or as much text as fits.

A plan is one pass over a corpus as a matrix, one row of numbers for each row to be read:
(first, last) of the sentences of the first text, (first, last) of the second one (empty where there
is none), and whether the second stands elsewhere; `last` is the sentence after. It follows from
(corpus, settings, key) alone.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headway.data.sentences import SentenceCorpus

Plan = npt.NDArray[np.int64]
FIRST, FIRST_END, SECOND, SECOND_END, ELSEWHERE = range(5)
FAR = 4  # the second text is a quarter of the corpus away where there is one document only


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
        rows.append((at, last, 0, 0, 0))
        at = last
    return np.array(rows, np.int64).reshape(-1, 5)


def pair_rows(corpus: SentenceCorpus, room: int, short: float, key: list[int]) -> Plan:
    """Two texts of one or more sentences each, together about `room` tokens: in half of the rows
    the second follows the first in its document, in half it stands in another one.

    A share of `short` of the rows aims at any smaller length (at least 2 tokens). Where the second
    text stands elsewhere, what followed is the beginning of the next row. Elsewhere is any sentence
    of the other documents; of the same one, a quarter of it away if possible, where there is no
    other. Devlin et al. 2019, appendix A.2 and released code; unlike theirs, a last sentence
    without a successor begins no row, so that the halves are equal.
    """
    sums = np.concatenate(([0], np.cumsum(corpus.lengths)))
    rows: list[tuple[int, int, int, int, int]] = []
    borders = corpus.documents.tolist()
    for number, (at, end) in enumerate(pairwise(borders)):
        random = np.random.default_rng([*key, number])
        while end - at >= 2:
            target = int(random.integers(2, room + 1)) if random.random() < short else room
            last = int(np.searchsorted(sums, sums[at] + target))  # the first that reaches it
            last = min(max(last, at + 2), end)
            cut = int(random.integers(at + 1, last))
            row, at = (at, cut, cut, last, 0), last
            if random.random() < 0.5:
                other = _elsewhere(borders[number], end, row[0], last, len(corpus), random)
                if other is not None:
                    stop = int(
                        np.searchsorted(sums, sums[other] + target - (sums[cut] - sums[row[0]]))
                    )
                    its_end = borders[int(np.searchsorted(corpus.documents, other, side="right"))]
                    row = (row[0], cut, other, min(max(stop, other + 1), its_end), 1)
                    at = cut
            rows.append(row)
    return np.array(rows, np.int64).reshape(-1, 5)


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
