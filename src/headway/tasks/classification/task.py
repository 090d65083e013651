"""The task of classification: job, evaluation, output, and the record that names them.

A language model or an encoder with a head. Radford et al. 2018, sections 3.2 and 3.3; Devlin et al.
2019, sections 3.2 and 4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.base.sharing import Share
from headway.bundle import ClassOptions, EncoderBundle, TextBundle, label_cells, label_scores
from headway.data.overlap import sides_of
from headway.data.padding import EncoderBatch
from headway.data.split import check_known
from headway.data.stream import Array, Batches
from headway.evaluation import number_scores, score_classes
from headway.evaluation.scores import Metric, Scores
from headway.models import GPT, Bert, BertClassifier, TextClassifier, backbone_of
from headway.tasks.classification.config import (
    METRICS,
    ClassifyEvaluationConfig,
    ClassifyRunConfig,
    StudentDataConfig,
    classify,
    pairs,
    regress,
)
from headway.tasks.classification.data import (
    ClassColumns,
    PreparedTexts,
    check_extra,
    check_texts,
    columns_of,
    labelled_texts,
    labels_of,
    prepare_for_reader,
    prepare_texts,
    read_line,
    read_table,
)
from headway.tasks.classification.label_files import LabelledText, read_labelled, read_unlabelled
from headway.tasks.classification.model import (
    ClassifiedText,
    ClassifierBundle,
    ClassInput,
    from_hugging_face,
    to_hugging_face,
)
from headway.tasks.classification.objective import ClassificationObjective, RegressionObjective
from headway.tasks.classification.word_replacement import AugmentedTexts, Neighbours
from headway.tasks.finetuning import (
    adapt,
    balanced,
    batches_of,
    copy_encoder,
    copy_gpt,
    describe_shape,
    view_of,
    without_adapters,
)
from headway.tasks.job import (
    Emit,
    Example,
    Job,
    Summary,
    planned_steps,
    prepare_blocks,
    update_size,
)
from headway.tasks.opening import load
from headway.tasks.sections import RunSettings
from headway.tasks.task import (
    NO_OPTIONS,
    BundleSpec,
    NoOptions,
    Pipeline,
    Predicts,
    Styled,
    Table,
    Task,
    Teaches,
    metrics_line,
)
from headway.tasks.truncation import warn_of_truncation
from headway.text import EncoderTokenizer
from headway.training import Objective


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """The settings of the training that a kind of pre-trained model decides if they are unset.

    lr: the peak learning rate. steps, passes: the number of updates, or of epochs if that is more.
    """

    lr: float
    steps: int
    passes: float


OF_LANGUAGE_MODEL = Defaults(lr=1e-3, steps=600, passes=0.0)
OF_ENCODER = Defaults(lr=1e-4, steps=500, passes=3.0)


def classifier_on(
    start: TextBundle | EncoderBundle, config: ClassifyRunConfig, outputs: int
) -> TextClassifier | BertClassifier:
    """Return a copy of a pre-trained model with a new head. outputs: the number of its outputs."""
    settings = config.model
    if isinstance(start, EncoderBundle):
        bert = copy_encoder(start, settings.dropout)
        return BertClassifier(bert, outputs, settings.pooling, settings.head_dropout)
    gpt = copy_gpt(start, settings.dropout)
    return TextClassifier(gpt, outputs, settings.head_dropout)


ClassifyJob = Job[EncoderBatch, Sequence[LabelledText], NoOptions]


def classification_job(
    config: ClassifyRunConfig,
    prepared: PreparedTexts,
    start: TextBundle | EncoderBundle,
    machine: Machine,
) -> ClassifyJob:
    """Return the job that trains a pre-trained model with a new head on labelled texts."""
    reader, training = prepared.reader, config.training
    usual = OF_ENCODER if isinstance(start, EncoderBundle) else OF_LANGUAGE_MODEL
    batches: Batches[Array, EncoderBatch] = batches_of(
        prepared.train, training, reader.pad, machine
    )
    rate, metric = config.optimizer.lr, config.evaluation.metric
    decided = {
        **planned_steps(training, batches.batches_per_epoch, usual.steps, usual.passes),
        "optimizer.lr": usual.lr if rate is None else rate,
        "evaluation.metric": METRICS[config.data.kind][0] if metric is None else metric,
    }
    config = override(config, decided, "the pre-trained model")

    def build() -> nn.Module:
        model = classifier_on(start, config, reader.outputs)
        if config.lora.rank:
            _adapt(backbone_of(model), config)
        return prepare_blocks(model, config.training, config.machine)

    head = "a number" if reader.numbers is not None else f"{reader.outputs} classes"
    unit = "pairs" if reader.pairs else "texts"
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=objective_of(config, prepared, isinstance(start, TextBundle)),
        held_out=prepared.held_out,
        evaluation=NO_OPTIONS,
        bundle=lambda model: ClassifierBundle(without_adapters(model, config.lora), reader),
        summary=Summary(
            model=f"{describe_shape(start)}, {head}",
            batches=f"{update_size(training, batches.examples_per_epoch):,} {unit}",
            unit=unit,
        ),
        views=lambda batch: [view_of(batch)],
        example=next(
            (_example(text) for text in prepared.held_out if 4 <= len(text.text.split()) <= 30),
            None,
        ),
    )


def _example(text: LabelledText) -> Example:
    return Example(text.text, text.second, label=text.label)


def objective_of(config: ClassifyRunConfig, prepared: PreparedTexts, predicts: bool) -> Objective:
    """Return the objective of a run. predicts: whether the model predicts the next token, too."""
    training, reader = config.training, prepared.reader
    auxiliary = training.auxiliary if predicts else 0.0
    if reader.numbers is not None:
        return RegressionObjective(auxiliary)
    weights = balanced(prepared.train.targets, reader.outputs) if training.balance else ()
    return ClassificationObjective(auxiliary, weights)


def _adapt(body: nn.Module, config: ClassifyRunConfig) -> None:
    """Add adapters to the body and freeze its other weights, but not a pooler, which may be new."""
    adapt(body, config.lora)
    if isinstance(body, Bert) and body.pooler is not None:
        body.pooler.requires_grad_(True)


def prepare(config: ClassifyRunConfig, folder: Path, machine: Machine, emit: Emit) -> ClassifyJob:
    """Load the pre-trained model, and encode the texts."""
    start = load(str(config.training.start), "cpu", dtype="float32")
    if not isinstance(start, TextBundle | EncoderBundle):
        raise UsageError(
            f"{config.training.start} holds a {start.kind}; a classifier is fine-tuned from a "
            f"{TextBundle.kind} or a {EncoderBundle.kind}",
            hint="headway train gpt-tiny TEXT trains a language model",
        )
    prepared = prepare_texts(config, start.tokenizer, start.model.max_length, folder, emit)
    return classification_job(config, prepared, start, machine)


def student_job(
    config: ClassifyRunConfig, teacher: ClassifierBundle, folder: Path, machine: Machine, emit: Emit
) -> ClassifyJob:
    """Return the job with the texts encoded by the reader of a classifier.

    Its batches have texts without labels and augmented texts, too.
    """
    data, reader, training = config.data, teacher.reader, config.training
    assert isinstance(data, StudentDataConfig)
    config = override(config, {"data.max_length": reader.max_length}, "the teacher")
    extra = list(read_unlabelled([Path(name) for name in data.extra], data.columns))
    prepared = prepare_for_reader(data, reader, extra, folder, emit)
    start: TextBundle | EncoderBundle
    if isinstance(reader.tokenizer, EncoderTokenizer):
        start = EncoderBundle(backbone_of(teacher.model), reader.tokenizer)
    else:
        start = TextBundle(backbone_of(teacher.model), reader.tokenizer)
    texts = _augmented(data, training.seed, prepared, start.model)
    batches: Batches[Array, EncoderBatch] = batches_of(texts, training, reader.pad, machine)
    return replace(classification_job(config, prepared, start, machine), batches=batches)


def _augmented(
    data: StudentDataConfig, seed: int, prepared: PreparedTexts, body: GPT | Bert
) -> AugmentedTexts:
    """Return the training texts, then the texts without labels, then augmented copies of all.

    body: the teacher without its head, by whose embeddings words are replaced.
    """
    tokenizer = prepared.reader.tokenizer
    rows = [*prepared.train.rows, *prepared.extra[0]]
    types = None
    if prepared.train.types is not None:
        types = [*prepared.train.types, *prepared.extra[1]]
    if not data.augment:
        return AugmentedTexts(rows=rows, types=types)
    if not isinstance(tokenizer, EncoderTokenizer):
        raise UsageError(
            "data.augment needs a teacher with a WordPiece tokenizer, whose tokens are words; this "
            "teacher is a language model",
            hint="leave out --data.augment; --data.extra FILE adds texts to the training",
        )
    words, special = tokenizer.words(range(tokenizer.size)), tokenizer.special_ids
    whole = [word.isalpha() and i not in special for i, word in enumerate(words)]
    used = sorted({i for row in rows for i in row})
    table = cast(nn.Embedding, body.tokens)
    embeddings = table.weight[: tokenizer.size].detach()
    return AugmentedTexts(
        rows=rows,
        types=types,
        neighbours=Neighbours.of(embeddings, whole, tokenizer.continues(), used),
        copies=data.augment,
        probability=data.replaced,
        seed=seed,
    )


def read_examples(
    bundle: ClassifierBundle,
    paths: Sequence[Path],
    config: RunSettings | None,
    options: NoOptions,
) -> Sequence[LabelledText]:
    """Read the labelled texts of tables. Warns of texts that are truncated."""
    texts = [
        text
        for path in paths
        for text in read_labelled([path], columns_of(bundle, path, config).columns)
    ]
    return _with_warning(bundle, texts)


def held_out_examples(
    bundle: ClassifierBundle, run: Path, config: RunSettings, options: NoOptions
) -> Sequence[LabelledText]:
    """Read the held-out texts of a run. Warns of texts that are truncated."""
    return _with_warning(bundle, labelled_texts(config.data)[1])


def _with_warning(
    bundle: ClassifierBundle, texts: Sequence[LabelledText]
) -> Sequence[LabelledText]:
    """Return the texts, and warn of those that are truncated."""
    lengths = bundle.reader.lengths([text.texts for text in texts])
    warn_of_truncation(lengths, bundle.reader.max_length)
    return texts


def evaluate(
    bundle: ClassifierBundle, texts: Sequence[LabelledText], options: NoOptions, share: Share
) -> Scores:
    """Evaluate a classifier (`score_classes`) or a regression model (`number_scores`).

    Raises DataError if there is no text, for a label that the model does not have, and for a label
    that is no number if the model predicts numbers.
    """
    if not texts:
        raise DataError("no texts to evaluate")
    unit = "texts" if isinstance(texts[0].texts, str) else "pairs"
    if bundle.reader.numbers is not None:
        true = [text.number for text in texts]
        logits = bundle.logits([text.texts for text in texts], share)[:, 0]
        predicted = [bundle.reader.numbers.restored(z) for z in logits.tolist()]
        metrics = tuple(
            Metric(name, value, higher_is_better=name != "mse")
            for name, value in number_scores(predicted, true).items()
        )
        return Scores(metrics, {unit: len(texts)})
    numbers = {label: i for i, label in enumerate(bundle.labels)}
    check_known(labels_of(texts), numbers, "label")
    logits = bundle.logits([text.texts for text in texts], share).cpu()
    return score_classes(logits, [numbers[text.label] for text in texts], bundle.labels, unit)


def prediction_lines(
    bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
) -> list[Styled]:
    """Format labels and probabilities, most probable first, separated by tabs; or the number."""
    if prediction.probabilities is None:
        return [[(f"{prediction.number:.3f}", "")]]
    return [[("\t".join(label_cells(prediction.probabilities, options.top or 1)), "")]]


def pipeline_form(
    bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
) -> list[dict[str, object]]:
    """Return the labels with their scores, or the number as the score of one label."""
    if prediction.number is not None:
        return [{"label": "number", "score": prediction.number}]
    return label_scores(prediction.probabilities or {})


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, and the number of texts or pairs that are classified correctly."""
    unit, count = list(scores.counts.items())[-1]
    if "correct" not in scores.counts:
        return [f"{metrics_line(scores)}   {count:,} {unit}"]
    return [f"{metrics_line(scores)}   {scores.counts['correct']:,} of {count:,} {unit} correct"]


def _content(text: LabelledText) -> str:
    return text.text if text.second is None else f"{text.text}\n{text.second}"


CLASSIFICATION = Task(
    name="classification",
    config=ClassifyRunConfig,
    recipes={"classify": classify, "pairs": pairs, "regress": regress},
    check=check_texts,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=lambda data: sides_of(labelled_texts(data), _content),
    show_scores=score_lines,
    bundles={
        "gpt-classifier": BundleSpec(ClassifierBundle),
        "bert-classifier": BundleSpec(ClassifierBundle, from_hugging_face, to_hugging_face),
    },
    predicts=Predicts(
        input=ClassInput,
        options=ClassOptions,
        show=prediction_lines,
        read_line=read_line,
        table=Table(columns=ClassColumns, read=read_table),
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}, lists_one=True),
    ),
    teaches=Teaches(
        data=StudentDataConfig(),
        evaluation=ClassifyEvaluationConfig(),
        job=student_job,
        decided=frozenset({"data.max_length"}),
        check=check_extra,
    ),
    next_commands=('classify {run} "..."', "eval {run}"),
)
