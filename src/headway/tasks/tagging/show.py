"""How a terminal shows tagged texts and the scores of a tagger."""

from __future__ import annotations

from collections.abc import Collection

from headway.data.spans import are_span_tags
from headway.evaluation.scores import Scores
from headway.tasks.tagging.bundle import TaggedText
from headway.tasks.task import Styled


def prediction_line(tags: Collection[str], prediction: TaggedText) -> Styled:
    """Format the text with [label words] for each span; word/tag if the tags have no spans."""
    if are_span_tags(tags):
        return _bracketed(prediction)
    parts: Styled = []
    for word in prediction.words:
        parts += [(f"{word.text}/", ""), (word.tag, "cyan"), (" ", "")]
    return parts[:-1]


def _bracketed(prediction: TaggedText) -> Styled:
    parts, last = [], 0
    for span in prediction.spans:
        parts.append((prediction.text[last : span.start], ""))
        parts += [("[", ""), (span.label, "cyan"), (f" {span.text}]", "bold")]
        last = span.end
    return [*parts, (prediction.text[last:], "")]


def score_lines(scores: Scores) -> list[str]:
    """Format F1, precision and recall if the tags have spans; then accuracy and loss."""
    lines = []
    counts = scores.counts
    if "f1" in scores:
        lines.append(
            f"F1 {scores['f1']:.3f}   precision {scores['precision']:.3f}, "
            f"recall {scores['recall']:.3f}; {counts['correct']:,} correct of "
            f"{counts['predicted']:,} predicted and {counts['true']:,} true spans"
        )
    correct = round(scores["accuracy"] * counts["words"])
    accuracy = f"accuracy {scores['accuracy']:.3f}   {correct:,} of {counts['words']:,} words"
    return [*lines, f"{accuracy}   loss {scores['loss']:.3f}"]
