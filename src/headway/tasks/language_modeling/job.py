"""The job of a language-modelling run."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.data.stream import Batches
from headway.interop import NO_SETTINGS
from headway.models import GPT
from headway.tasks.finetuning import adapt, without_adapters
from headway.tasks.job import Emit, Example, Job, prepare_blocks, update_size
from headway.tasks.language_modeling.config import (
    SCRATCH_RATE,
    TUNING_RATE,
    LanguageRunConfig,
    LanguageScoring,
)
from headway.tasks.language_modeling.data import PreparedLanguage, prepare_language
from headway.tasks.language_modeling.evaluation import ScoredText, Windows
from headway.tasks.language_modeling.packing import PackedSequences
from headway.tasks.text_data import opened
from headway.training import Stream, TextObjective

WATCHED = 40
"""Number of tokens of the example whose attention is recorded during training."""


class LanguageJob:
    """A `Job` that trains a GPT on text. start: the pre-trained model, or None."""

    def __init__(
        self,
        config: LanguageRunConfig,
        prepared: PreparedLanguage,
        start: TextBundle | None,
        machine: Machine,
    ) -> None:
        self.config = _fitted(config, prepared, start)
        self.prepared, self.start = prepared, start
        training, data = self.config.training, self.config.data
        settings = self.config.evaluation
        self.evaluation = LanguageScoring(sample=settings.sample, prompt=settings.prompt)
        windows = Windows(
            length=training.length, batch_size=training.batch_size, tokens=settings.tokens
        )
        self.held_out = ScoredText(corpus=prepared.valid, windows=windows)
        self.objective = TextObjective()
        sequences = PackedSequences(
            prepared.train,
            training.batch_size,
            training.length,
            weights=data.weights,
            names=data.train,
            seed=training.seed,
        )
        self.train_batches = Batches(sequences, sequences.batch, machine.device)

    def build(self) -> nn.Module:
        model = GPT(self.config.model)
        if self.start is not None:
            model.load_state_dict(self.start.model.state_dict())
        adapt(model, self.config.lora)
        prepare_blocks(model, self.config.training, self.config.machine)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def example(self) -> Example:
        first = self.prepared.valid.ids[:WATCHED].tolist()
        return Example(self.prepared.tokenizer.decode(first))

    def bundle(self, model: Any) -> TextBundle:
        settings = NO_SETTINGS if self.start is None else self.start.settings
        merged = without_adapters(model, self.config.lora)
        return TextBundle(merged, self.prepared.tokenizer, settings)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        sequences = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{model.num_layers} layers, d={model.model_dim}, {model.num_heads} heads, "
            f"vocabulary size {model.vocabulary:,}",
            "batches": f"{sequences * training.length:,} tokens",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": "tok",
        }


def _fitted(
    config: LanguageRunConfig, prepared: PreparedLanguage, start: TextBundle | None
) -> LanguageRunConfig:
    """Set the shape of the pre-trained model, or the vocabulary size and the maximum length; and
    the optimizer that suits training from scratch or fine-tuning."""
    kind, rate = ("muon", SCRATCH_RATE) if start is None else ("adamw", TUNING_RATE)
    kind = config.optimizer.kind or kind
    optimizer = {"optimizer.kind": kind, "optimizer.lr": config.optimizer.lr or rate}
    config = override(config, optimizer, "the kind of training")
    if start is not None:
        shape = {f"model.{name}": value for name, value in asdict(start.config).items()}
        shape["model.dropout"] = config.model.dropout
        return override(config, shape, "the pre-trained model")
    length = max(config.model.max_length, config.training.length)
    decided = {"model.vocabulary": prepared.tokenizer.size, "model.max_length": length}
    return override(config, decided, "the tokenizer")


def prepare(config: LanguageRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Prepare tokenizer and shards in the run folder, and load the pre-trained model if any."""
    training = config.training
    start = opened(TextBundle, training.start, training.length) if training.start else None
    prepared = prepare_language(config, start, folder, emit)
    job = LanguageJob(config, prepared, start, machine)
    _check_prompt(job)
    epochs = training.steps * training.accumulate / job.train_batches.batches_per_epoch
    if epochs > 20:
        text = f"{math.floor(epochs)} epochs: the model will overfit the text; "
        emit({"kind": "note", "text": text + "use fewer --steps, or --model.dropout 0.2"})
    return job


def _check_prompt(job: LanguageJob) -> None:
    """Raise UsageError for a prompt that is too long, before the first evaluation."""
    limit = job.config.model.max_length
    length = len(job.prepared.tokenizer.begin(job.config.evaluation.prompt))
    if length > limit:
        raise UsageError(
            f"evaluation.prompt has {length} tokens, but the model's maximum length is {limit}",
            hint="shorten --evaluation.prompt",
        )
