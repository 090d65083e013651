"""Spans of words from tags in the IOB, IOBES and BILOU schemes: B-person I-person O; their F1."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_FIRST, _LAST = frozenset("BSU"), frozenset("ELSU")


@dataclass(frozen=True, order=True)
class WordSpan:
    """The span of the words start, start + 1, ... end - 1, and its label."""

    start: int
    end: int
    label: str


def are_span_tags(names: Collection[str]) -> bool:
    """Return whether tags describe spans: all are O or like B-person, and at least one is not
    O."""
    return any(name != OUTSIDE for name in names) and all(
        name == OUTSIDE or _TAG.fullmatch(name) for name in names
    )


def spans_of(tags: Sequence[str]) -> list[WordSpan]:
    """Return the spans of one sentence, by the rules of the CoNLL-2000 evaluation script.

    A span begins at B, and at a tag that does not continue the span before it: after O, or after
    another label. So IOB1 and IOB2 give the same spans, and a predicted span without a B counts. In
    IOBES and BILOU, S and U begin and end a span, E and L end it. Tjong Kim Sang and Buchholz 2000.
    """
    spans: list[WordSpan] = []
    open_span: tuple[int, str] | None = None
    for index, tag in enumerate([*tags, OUTSIDE]):
        match = _TAG.fullmatch(tag)
        kind, label = (match[1], match[2]) if match else (OUTSIDE, "")
        continues = open_span is not None and label == open_span[1] and kind not in _FIRST
        if open_span is not None and not continues:
            spans.append(WordSpan(open_span[0], index, open_span[1]))
            open_span = None
        if match and open_span is None:
            open_span = (index, label)
        if open_span is not None and kind in _LAST:
            spans.append(WordSpan(open_span[0], index + 1, open_span[1]))
            open_span = None
    return spans


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
