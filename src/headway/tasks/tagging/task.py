"""The task of tagging: objective, job, evaluation, output, and their record.

An encoder with a head on the first token of every word. Devlin et al. 2019, section 5.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.sharing import Share
from headway.base.transfers import positions_where, upload
from headway.bundle import EncoderBundle
from headway.data.overlap import sides_of
from headway.data.split import check_known
from headway.data.word_targets import WordBatch
from headway.evaluation.scores import Metric, Scores
from headway.models import BertTagger
from headway.tasks.finetuning import (
    balanced,
    batches_of,
    describe_shape,
    fitting,
    load_encoder,
    view_of,
    with_head,
)
from headway.tasks.job import Emit, Example, Job, Summary, planned_steps, update_size
from headway.tasks.sections import RunSettings
from headway.tasks.tagging.config import TagDataConfig, TagEvaluationConfig, TagRunConfig, tag
from headway.tasks.tagging.data import (
    SENTENCES,
    PreparedTags,
    prepare_tags,
    tagged_sentences,
    tags_of,
)
from headway.tasks.tagging.model import (
    PredictedSpan,
    PredictedWord,
    TaggedText,
    TaggerBundle,
    TagOptions,
    TagReader,
    from_hugging_face,
    to_hugging_face,
)
from headway.tasks.tagging.spans import Entity, TextEntities, are_span_tags, score_spans
from headway.tasks.tagging.tag_files import TaggedSentence, read_tagged
from headway.tasks.task import (
    NO_OPTIONS,
    BundleSpec,
    NoOptions,
    Pipeline,
    Predicts,
    Styled,
    Task,
    Teaches,
    TextInput,
)
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class TaggingObjective:
    """Computes -sum w log P(tag of word) at the first token of every word.

    Other tokens have no targets. The loss counts words. weights: w of each tag; empty: all 1.
    Devlin et al. 2019, section 5.3.
    """

    weights: tuple[float, ...] = ()

    def __call__(self, model: BertTagger, batch: WordBatch) -> Loss:
        texts = batch.texts
        words = positions_where(batch.words, len(batch.targets))
        logits = model(texts.tokens, texts.keys, texts.types).flatten(0, 1)  # BT C
        logits = logits.index_select(0, words).float()  # N C
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        nats = losses.detach().sum()
        if self.weights:
            weights = upload(torch.tensor(self.weights, dtype=losses.dtype), losses.device)
            losses = losses * weights[batch.targets]
        return Loss(losses.sum(), nats, len(logits))


TagJob = Job[WordBatch, Sequence[TaggedSentence], NoOptions]


def tagging_job(
    config: TagRunConfig, prepared: PreparedTags, start: EncoderBundle, machine: Machine
) -> TagJob:
    """Return the job that trains an encoder with a head on the first token of every word."""
    train, reader, training = prepared.train, prepared.reader, config.training
    tags, pad = reader.tags, start.tokenizer.special_tokens.pad
    batches = batches_of(train, training, pad, machine)
    steps = planned_steps(training, batches.batches_per_epoch, least=1000, passes=3.0)
    metric = {} if are_span_tags(tags) else {"evaluation.metric": "accuracy"}
    config = override(config, {**steps, **metric}, "the sentences")
    targets = (tag for row in train.targets for tag in row)
    dropout = config.model.head_dropout
    return Job(
        config=config,
        build=with_head(start, config, lambda bert: BertTagger(bert, len(tags), dropout)),
        batches=batches,
        objective=TaggingObjective(balanced(targets, len(tags)) if training.balance else ()),
        held_out=prepared.held_out,
        evaluation=NO_OPTIONS,
        bundle=lambda model: TaggerBundle(model, reader),
        summary=Summary(
            model=f"{describe_shape(start)}, {len(tags)} tags",
            batches=f"{update_size(training, batches.examples_per_epoch):,} sentences",
            unit="words",
        ),
        views=lambda batch: [replace(view_of(batch.texts), target_mask=batch.words)],
        example=next((_example(one) for one in prepared.held_out if len(one.words) >= 4), None),
    )


def _example(sentence: TaggedSentence) -> Example:
    return Example(" ".join(sentence.words), label=" ".join(sentence.tags))


def prepare(config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> TagJob:
    """Load the pre-trained encoder, and encode the sentences."""
    start = load_encoder(config.training.start)
    splits = tagged_sentences(config.data, emit)
    tags = tuple(sorted({tag for sentence in splits[0] for tag in sentence.tags}))
    reader = TagReader(start.tokenizer, tags, fitting(config.data.max_length, start.model))
    return tagging_job(config, prepare_tags(splits, reader, folder, emit), start, machine)


def student_job(
    config: TagRunConfig, teacher: TaggerBundle, folder: Path, machine: Machine, emit: Emit
) -> TagJob:
    """Return the job with the sentences encoded by the reader of a tagger.

    Raises DataError for a tag that the tagger does not have.
    """
    reader = teacher.reader
    config = override(config, {"data.max_length": reader.max_length}, "the teacher")
    splits = tagged_sentences(config.data, emit)
    check_known(tags_of([*splits[0], *splits[1]]), reader.tags, "tag")
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    return tagging_job(config, prepare_tags(splits, reader, folder, emit), encoder, machine)


def read_examples(
    bundle: TaggerBundle, paths: Sequence[Path], config: RunSettings | None, options: NoOptions
) -> Sequence[TaggedSentence]:
    """Read the tagged sentences of files."""
    data = config.data if isinstance(config, TagRunConfig) else TagDataConfig()
    return list(read_tagged(list(paths), data.column))


def held_out_examples(
    bundle: TaggerBundle, run: Path, config: RunSettings, options: NoOptions
) -> Sequence[TaggedSentence]:
    """Read the held-out sentences of a run."""
    return tagged_sentences(config.data)[1]


def evaluate(
    bundle: TaggerBundle, sentences: Sequence[TaggedSentence], options: NoOptions, share: Share
) -> Scores:
    """Evaluate a tagger: F1, precision and recall if the tags have spans; accuracy; the loss.

    accuracy = correctly tagged words / words. loss = -1/N sum log P(tag of word), in nats, over all
    N words. Raises DataError if there is no word, and for a tag that the model does not have.
    """
    numbers = {tag: i for i, tag in enumerate(bundle.tags)}
    check_known(tags_of(sentences), numbers, "tag")
    targets = [sentence.tags for sentence in sentences]
    if not any(targets):
        raise DataError("no tagged words to evaluate")
    rows_of = bundle.reader.encode([sentence.words for sentence in sentences])
    logits = bundle.word_logits([row for rows in rows_of for row in rows], share)
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
) -> list[dict[str, object]]:
    """Return the entities, spans or tagged words as the pipeline of transformers does."""
    if isinstance(prediction, TextEntities):
        return [_entity_form(entity) for entity in prediction.entities]

    def form(label: str, item: PredictedSpan | PredictedWord) -> dict[str, object]:
        place = {"word": item.text, "start": item.start, "end": item.end}
        return {"entity_group": label, "score": item.probability, **place}

    if prediction.spans:
        return [form(span.label, span) for span in prediction.spans]
    return [form(word.tag, word) for word in prediction.words if word.tag != "O"]


def _entity_form(entity: Entity) -> dict[str, object]:
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


TAGGING = Task(
    name="tagging",
    config=TagRunConfig,
    recipes={"tag": tag},
    check=SENTENCES.check,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=lambda data: sides_of(tagged_sentences(data), lambda one: " ".join(one.words)),
    show_scores=score_lines,
    bundles={"bert-tagger": BundleSpec(TaggerBundle, from_hugging_face, to_hugging_face)},
    predicts=Predicts(
        input=TextInput,
        options=TagOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form),
    ),
    teaches=Teaches(
        data=TagDataConfig(),
        evaluation=TagEvaluationConfig(),
        unit="sentences",
        job=student_job,
        decided=frozenset({"data.max_length", "evaluation.metric"}),
    ),
    next_commands=('tag {run} "..."', "eval {run}"),
)
