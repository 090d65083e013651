"""How many spans of words were found: entities, slots, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.data.spans import spans_of


@dataclass(frozen=True)
class SpanScores:
    """Shares, 0 to 1. true, found, right: numbers of spans."""

    precision: float
    recall: float
    f1: float
    true: int
    found: int
    right: int


def score_spans(found: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> SpanScores:
    """Scores of the spans that tags mark, over all sentences and labels together (micro).

    A span is right if its first word, its last word and its label are. precision = right / found,
    recall = right / true, f1 = their harmonic mean; 0 where there is nothing to divide by. Tjong
    Kim Sang and Buchholz 2000, section 4.
    """
    if len(found) != len(true):
        raise ValueError(f"{len(found)=} and {len(true)=} sentences must be equally many")
    counts = [0, 0, 0]
    for said, wanted in zip(found, true, strict=True):
        if len(said) != len(wanted):
            raise ValueError(f"{len(said)} tags for {len(wanted)} words")
        ours, theirs = set(spans_of(said)), set(spans_of(wanted))
        for i, spans in enumerate((theirs, ours, ours & theirs)):
            counts[i] += len(spans)
    all_true, all_found, right = counts
    precision, recall = right / max(all_found, 1), right / max(all_true, 1)
    f1 = 2 * right / max(all_found + all_true, 1)
    return SpanScores(precision, recall, f1, all_true, all_found, right)
