"""How a terminal shows tagged texts and the scores of a tagger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.evaluation.scores import Scores
from headway.tasks.tagging.aggregation import TextEntities
from headway.tasks.tagging.bundle import TaggedText
from headway.tasks.tagging.spans import are_span_tags
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
    return _with_labels(
        prediction.text, [(span.label, span.start, span.end) for span in prediction.spans]
    )


def entities_line(prediction: TextEntities) -> Styled:
    """Format the text with [label words] for each entity."""
    entities = [(entity.label, entity.start, entity.end) for entity in prediction.entities]
    return _with_labels(prediction.text, entities)


def _with_labels(text: str, spans: Sequence[tuple[str, int, int]]) -> Styled:
    parts, last = [], 0
    for label, start, end in spans:
        parts.append((text[last:start], ""))
        parts += [("[", ""), (label, "cyan"), (f" {text[start:end]}]", "bold")]
        last = end
    return [*parts, (text[last:], "")]


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
