"""How a terminal and an inference server show tagged texts, and the scores of a tagger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.evaluation.scores import Scores
from headway.tasks.tagging.aggregation import Entity, TextEntities
from headway.tasks.tagging.bundle import (
    PredictedSpan,
    PredictedWord,
    TaggedText,
    TaggerBundle,
    TagOptions,
)
from headway.tasks.tagging.spans import are_span_tags
from headway.tasks.task import Styled


def prediction_lines(
    bundle: TaggerBundle, prediction: TaggedText | TextEntities, options: TagOptions
) -> list[Styled]:
    """Format the text with [label words] for each span; word/tag if the tags have no spans."""
    if isinstance(prediction, TextEntities):
        labelled: Sequence[Entity | PredictedSpan] = prediction.entities
    elif are_span_tags(bundle.tags):
        labelled = prediction.spans
    else:
        parts: Styled = []
        for word in prediction.words:
            parts += [(f"{word.text}/", ""), (word.tag, "cyan"), (" ", "")]
        return [parts[:-1]]
    spans = [(span.label, span.start, span.end) for span in labelled]
    return [_with_labels(prediction.text, spans)]


def pipeline_form(
    bundle: TaggerBundle, prediction: TaggedText | TextEntities, options: TagOptions
) -> list[dict[str, Any]]:
    """Return the entities, spans or tagged words as the pipeline of transformers does."""
    if isinstance(prediction, TextEntities):
        return [_entity_form(entity) for entity in prediction.entities]

    def form(label: str, item: PredictedSpan | PredictedWord) -> dict[str, Any]:
        place = {"word": item.text, "start": item.start, "end": item.end}
        return {"entity_group": label, "score": item.probability, **place}

    if prediction.spans:
        return [form(span.label, span) for span in prediction.spans]
    return [form(word.tag, word) for word in prediction.words if word.tag != "O"]


def _entity_form(entity: Entity) -> dict[str, Any]:
    """Return an entity as the pipeline of transformers does: a group, or a single token."""
    place = {"word": entity.word, "start": entity.start, "end": entity.end}
    if entity.index is None:
        return {"entity_group": entity.label, "score": entity.probability, **place}
    return {"entity": entity.label, "score": entity.probability, "index": entity.index, **place}


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
