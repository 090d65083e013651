"""The job of a classification run: fine-tunes a language model or an encoder on labelled texts.

Radford et al. 2018, sections 3.2 and 3.3; Devlin et al. 2019, sections 3.2 and 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.bundle import EncoderBundle, TextBundle
from headway.data.stream import Batches, ByLength
from headway.models import GPT, Bert, BertClassifier, TextClassifier, backbone_of
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.config import METRICS, ClassifyRunConfig, StudentDataConfig
from headway.tasks.classification.data import (
    PreparedTexts,
    prepare_for_reader,
    prepare_texts,
)
from headway.tasks.classification.label_files import LabelledText, read_unlabelled
from headway.tasks.classification.objective import ClassificationObjective, RegressionObjective
from headway.tasks.classification.word_replacement import AugmentedTexts, Neighbours
from headway.tasks.finetuning import (
    adapt,
    balanced,
    copy_encoder,
    describe_shape,
    view_of,
    without_adapters,
)
from headway.tasks.job import Emit, Job, Summary, planned_steps, prepare_blocks, update_size
from headway.tasks.opening import load
from headway.tasks.task import NO_OPTIONS, NoOptions
from headway.text import EncoderTokenizer
from headway.training import Objective


@dataclass(frozen=True, kw_only=True)
class Start:
    """How one kind of pre-trained model becomes a classifier, and the defaults of its training.

    make: makes the classifier from a bundle, the run's configuration and the number of outputs.
    body: the classifier's attribute that is the pre-trained model. writes: whether the body is a
    language model. lr: the peak learning rate. steps, passes: the number of updates, or of epochs
    if that is more.
    """

    make: Callable[[Any, ClassifyRunConfig, int], nn.Module]
    body: str
    writes: bool
    lr: float
    steps: int
    passes: float


def _of_gpt(start: TextBundle, config: ClassifyRunConfig, outputs: int) -> TextClassifier:
    gpt = GPT(replace(start.config, dropout=config.model.dropout))
    gpt.load_state_dict(start.model.state_dict())
    return TextClassifier(gpt, outputs, config.model.head_dropout)


def _of_encoder(start: EncoderBundle, config: ClassifyRunConfig, outputs: int) -> BertClassifier:
    bert = copy_encoder(start, config.model.dropout)
    return BertClassifier(bert, outputs, config.model.pooling, config.model.head_dropout)


STARTS: dict[type[Any], Start] = {
    TextBundle: Start(
        make=_of_gpt,
        body="gpt",
        writes=True,
        lr=1e-3,
        steps=600,
        passes=0.0,
    ),
    EncoderBundle: Start(
        make=_of_encoder,
        body="bert",
        writes=False,
        lr=1e-4,
        steps=500,
        passes=3.0,
    ),
}
"""The class of the pre-trained bundle -> how it becomes a classifier."""

ClassifyJob = Job[Any, Sequence[LabelledText], NoOptions]


def classification_job(
    config: ClassifyRunConfig,
    prepared: PreparedTexts,
    start: TextBundle | EncoderBundle,
    machine: Machine,
) -> ClassifyJob:
    """Return the job that trains a pre-trained model with a new head on labelled texts.

    Raises UsageError if steps and epochs disagree.
    """
    kind, train, reader, training = (
        STARTS[type(start)],
        prepared.train,
        prepared.reader,
        config.training,
    )
    batches = Batches(
        ByLength(train.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: train.batch(chosen, reader.pad),
        machine.device,
    )
    rate, metric = config.optimizer.lr, config.evaluation.metric
    decided = {
        **planned_steps(training, batches.batches_per_epoch, kind.steps, kind.passes),
        "optimizer.lr": kind.lr if rate is None else rate,
        "evaluation.metric": METRICS[config.data.kind][0] if metric is None else metric,
    }
    config = override(config, decided, "the pre-trained model")

    def build() -> nn.Module:
        model = kind.make(start, config, reader.outputs)
        if config.lora.rank:
            _adapt(model.get_submodule(kind.body), config)
        return prepare_blocks(model, config.training, config.machine)

    head = "a number" if reader.numbers is not None else f"{reader.outputs} classes"
    unit = "pairs" if reader.pairs else "texts"
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=_objective(config, prepared, kind),
        held_out=prepared.held_out,
        evaluation=NO_OPTIONS,
        bundle=lambda model: ClassifierBundle(without_adapters(model, config.lora), reader),
        summary=Summary(
            model=f"{describe_shape(start)}, {head}",
            batches=f"{update_size(training, batches.examples_per_epoch):,} {unit}",
            unit=unit,
        ),
        views=lambda batch: [view_of(batch)],
    )


def _objective(config: ClassifyRunConfig, prepared: PreparedTexts, kind: Start) -> Objective:
    training, reader = config.training, prepared.reader
    auxiliary = training.auxiliary if kind.writes else 0.0
    if reader.numbers is not None:
        return RegressionObjective(auxiliary)
    targets = Counter(prepared.train.targets)
    weights = balanced(targets, reader.outputs) if training.balance else ()
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
        kinds = " or a ".join(kind.kind for kind in STARTS)
        raise UsageError(
            f"{config.training.start} holds a {start.kind}; a classifier is fine-tuned from a "
            f"{kinds}",
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
    body: Any = backbone_of(teacher.model)
    start: TextBundle | EncoderBundle
    if isinstance(reader.tokenizer, EncoderTokenizer):
        start = EncoderBundle(body, reader.tokenizer)
    else:
        start = TextBundle(body, reader.tokenizer)
    texts = _augmented(data, training.seed, prepared, body)
    batches = Batches(
        ByLength(texts.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: texts.batch(chosen, reader.pad),
        machine.device,
    )
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
