"""Precision, recall and F1 of spans of words: entities, slots, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.tasks.tagging.spans import spans_of


@dataclass(frozen=True)
class SpanScores:
    """Precision, recall and F1, from 0 to 1.

    true, predicted, correct: the numbers of true, predicted and correct spans.
    """

    precision: float
    recall: float
    f1: float
    true: int
    predicted: int
    correct: int


def score_spans(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> SpanScores:
    """Score the spans of predicted tags against those of true tags, micro-averaged.

    predicted, true: the tags of each sentence, one per word. A span is correct if its first word,
    its last word and its label are. precision = correct / predicted, recall = correct / true, f1 =
    their harmonic mean; 0 if the denominator is 0. Tjong Kim Sang and Buchholz 2000, section 4.
    """
    if len(predicted) != len(true):
        raise ValueError(
            f"the numbers of sentences {len(predicted)=} and {len(true)=} must be equal"
        )
    num_true = num_predicted = num_correct = 0
    for i, (tags, true_tags) in enumerate(zip(predicted, true, strict=True)):
        if len(tags) != len(true_tags):
            raise ValueError(f"sentence {i} (from 0): {len(tags)} tags for {len(true_tags)} words")
        spans, true_spans = set(spans_of(tags)), set(spans_of(true_tags))
        num_true += len(true_spans)
        num_predicted += len(spans)
        num_correct += len(spans & true_spans)
    precision, recall = num_correct / max(num_predicted, 1), num_correct / max(num_true, 1)
    f1 = 2 * num_correct / max(num_predicted + num_true, 1)
    return SpanScores(precision, recall, f1, num_true, num_predicted, num_correct)
