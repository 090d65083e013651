"""The evaluation of a tagger: F1 of spans, accuracy of words and cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.data.split import check_known
from headway.evaluation.scores import Metric, Scores
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.data import tags_of
from headway.tasks.tagging.span_f1 import score_spans
from headway.tasks.tagging.spans import are_span_tags
from headway.tasks.tagging.tag_files import TaggedSentence


def evaluate(
    bundle: TaggerBundle,
    sentences: Sequence[TaggedSentence],
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Evaluate a tagger: F1, precision and recall if the tags have spans; accuracy; the loss.

    accuracy = correctly tagged words / words. loss = -1/N sum log P(tag of word), in nats, over all
    N words. progress: called before each batch with the number of sequences processed so far.
    Raises DataError if there is no word, and for a tag that the model does not have.
    """
    numbers = {tag: i for i, tag in enumerate(bundle.tags)}
    check_known(tags_of(sentences), numbers, "tag")
    targets = [sentence.tags for sentence in sentences]
    if not any(targets):
        raise DataError("no tagged words to evaluate")
    rows_of = bundle.reader.encode([sentence.words for sentence in sentences])
    logits = bundle.word_logits([row for rows in rows_of for row in rows], progress)
    word_logits = torch.cat(logits)  # N C, in the order of the sentences
    true = torch.tensor([numbers[tag] for tags in targets for tag in tags])
    loss = F.cross_entropy(word_logits, true).item()
    best = word_logits.argmax(-1)
    predicted_tags = (bundle.tags[i] for i in best.tolist())
    predictions = [[next(predicted_tags) for _ in tags] for tags in targets]
    accuracy = (best == true).double().mean().item()
    metrics = [Metric("accuracy", accuracy), Metric("loss", loss, higher_is_better=False)]
    counts = {"words": len(true), "sentences": len(sentences)}
    if are_span_tags(bundle.tags):
        spans = score_spans(predictions, targets)
        names = ("f1", "precision", "recall")
        metrics = [*(Metric(name, getattr(spans, name)) for name in names), *metrics]
        counts = {
            "true": spans.true,
            "predicted": spans.predicted,
            "correct": spans.correct,
            **counts,
        }
    return Scores(tuple(metrics), counts)
