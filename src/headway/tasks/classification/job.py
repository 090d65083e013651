"""The job of a classification run: fine-tunes a language model or an encoder on labelled texts.

Radford et al. 2018, sections 3.2 and 3.3; Devlin et al. 2019, sections 3.2 and 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.bundle import EncoderBundle, TextBundle
from headway.data.stream import Batches, ByLength
from headway.models import GPT, Bert, BertClassifier, TextClassifier
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.config import METRICS, ClassifyRunConfig
from headway.tasks.classification.data import PreparedTexts, prepare_texts
from headway.tasks.classification.objective import ClassificationObjective, RegressionObjective
from headway.tasks.finetuning import adapt, balanced, copy_encoder, describe_shape, without_adapters
from headway.tasks.job import Emit, Job, planned_steps, prepare_blocks, update_size
from headway.tasks.opening import load
from headway.tasks.task import NO_OPTIONS
from headway.training import Stream


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


class ClassifyJob:
    """A `Job` that fine-tunes a pre-trained model with a new head on labelled texts."""

    def __init__(
        self,
        config: ClassifyRunConfig,
        prepared: PreparedTexts,
        start: TextBundle | EncoderBundle,
        machine: Machine,
    ) -> None:
        self.prepared, self.start, self.machine = prepared, start, machine
        self.held_out, self.evaluation = prepared.held_out, NO_OPTIONS
        self.kind = STARTS[type(start)]
        self.pad = prepared.reader.pad
        training = config.training
        train = prepared.train
        self.train_batches = Batches(
            ByLength(train.lengths, training.batch_size, training.seed),
            lambda chosen, epoch: train.batch(chosen, self.pad),
            machine.device,
        )
        self.config = _fitted(config, self.kind, self.train_batches.batches_per_epoch)
        auxiliary = training.auxiliary if self.kind.writes else 0.0
        self.objective: ClassificationObjective | RegressionObjective
        if prepared.reader.numbers is not None:
            self.objective = RegressionObjective(auxiliary)
        else:
            weights = (
                balanced(Counter(train.targets), prepared.reader.outputs)
                if training.balance
                else ()
            )
            self.objective = ClassificationObjective(auxiliary, weights)

    def build(self) -> nn.Module:
        config, kind = self.config, self.kind
        model = kind.make(self.start, config, self.prepared.reader.outputs)
        if config.lora.rank:
            _adapt(model.get_submodule(kind.body), config)
        prepare_blocks(model, config.training, config.machine)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def bundle(self, model: Any) -> ClassifierBundle:
        return ClassifierBundle(without_adapters(model, self.config.lora), self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        training, reader = self.config.training, self.prepared.reader
        head = "a number" if reader.numbers is not None else f"{reader.outputs} classes"
        unit = "pairs" if reader.pairs else "texts"
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{describe_shape(self.start)}, {head}",
            "batches": f"{examples:,} {unit}",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": unit,
        }


def _fitted(config: ClassifyRunConfig, kind: Start, batches: int) -> ClassifyRunConfig:
    """Set the settings that the pre-trained model and the texts decide.

    Raises UsageError if steps and epochs disagree.
    """
    planned = planned_steps(config.training, batches, kind.steps, kind.passes)
    rate, metric = config.optimizer.lr, config.evaluation.metric
    decided = {
        **planned,
        "optimizer.lr": kind.lr if rate is None else rate,
        "evaluation.metric": METRICS[config.data.kind][0] if metric is None else metric,
    }
    return override(config, decided, "the pre-trained model")


def _adapt(body: nn.Module, config: ClassifyRunConfig) -> None:
    """Add adapters to the body and freeze its other weights, but not a pooler, which may be new."""
    adapt(body, config.lora)
    if isinstance(body, Bert) and body.pooler is not None:
        body.pooler.requires_grad_(True)


def prepare(config: ClassifyRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
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
    return ClassifyJob(config, prepared, start, machine)
