"""The job of a language-modelling run."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path

import torch

from headway.attention import Documents
from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.base.shapes import Tensor
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.interop import NO_SETTINGS
from headway.models import GPT
from headway.tasks.finetuning import adapt, without_adapters
from headway.tasks.job import Emit, Example, Job, Summary, prepare_blocks, update_size
from headway.tasks.language_modeling.config import (
    LanguageRunConfig,
    LanguageScoring,
)
from headway.tasks.language_modeling.data import PreparedLanguage, prepare_language
from headway.tasks.language_modeling.evaluation import ScoredText, Windows
from headway.tasks.language_modeling.packing import PackedSequences, TextBatch
from headway.tasks.text_data import check_max_length, opened
from headway.training import TextObjective, View, for_start

WATCHED = 40
"""Number of tokens of the example whose attention is recorded during training."""


LanguageJob = Job[TextBatch, ScoredText, LanguageScoring]


def language_job(
    config: LanguageRunConfig,
    prepared: PreparedLanguage,
    start: TextBundle | None,
    machine: Machine,
) -> LanguageJob:
    """Return the job that trains a GPT on text. start: the pre-trained model, or None.

    Raises UsageError for a prompt of the samples that is too long.
    """
    config = _fitted(config, prepared, start)
    model, training, evaluation = config.model, config.training, config.evaluation
    length = len(prepared.tokenizer.begin(evaluation.prompt))
    if length > model.max_length:
        raise UsageError(
            f"evaluation.prompt has {length} tokens, but the model's maximum length is "
            f"{model.max_length}",
            hint="shorten --evaluation.prompt",
        )
    packed = PackedSequences(
        prepared.train,
        training.batch_size,
        training.length,
        weights=config.data.weights,
        names=config.data.train,
        seed=training.seed,
    )
    batches = Batches(packed, packed.batch, machine.device)

    def build() -> GPT:
        gpt = GPT(model)
        if start is not None:
            gpt.load_state_dict(start.model.state_dict())
        adapt(gpt, config.lora)
        return prepare_blocks(gpt, training, config.machine)

    windows = Windows(
        length=training.length, batch_size=training.batch_size, tokens=evaluation.tokens
    )
    settings = NO_SETTINGS if start is None else start.settings
    sequences = update_size(training, batches.examples_per_epoch)
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=TextObjective(),
        held_out=ScoredText(corpus=prepared.valid, windows=windows),
        evaluation=LanguageScoring(sample=evaluation.sample, prompt=evaluation.prompt),
        bundle=lambda trained: TextBundle(
            without_adapters(trained, config.lora), prepared.tokenizer, settings
        ),
        summary=Summary(
            model=f"{model.num_layers} layers, d={model.model_dim}, {model.num_heads} heads, "
            f"vocabulary size {model.vocabulary:,}",
            batches=f"{sequences * training.length:,} tokens",
            unit="tok",
        ),
        views=documents_of,
        example=Example(prepared.tokenizer.decode(prepared.valid.ids[:WATCHED].tolist())),
    )


def _fitted(
    config: LanguageRunConfig, prepared: PreparedLanguage, start: TextBundle | None
) -> LanguageRunConfig:
    """Set the shape of the pre-trained model, or the vocabulary size and the maximum length; and
    the optimizer that suits training from scratch or fine-tuning."""
    decided = for_start(config.optimizer, is_fine_tuned=start is not None)
    config = override(config, decided, "the kind of training")
    if start is not None:
        shape = {f"model.{name}": value for name, value in asdict(start.config).items()}
        shape["model.dropout"] = config.model.dropout
        return override(config, shape, "the pre-trained model")
    length = max(config.model.max_length, config.training.length)
    decided = {"model.vocabulary": prepared.tokenizer.size, "model.max_length": length}
    return override(config, decided, "the tokenizer")


def prepare(config: LanguageRunConfig, folder: Path, machine: Machine, emit: Emit) -> LanguageJob:
    """Prepare tokenizer and shards in the run folder, and load the pre-trained model if any."""
    training = config.training
    start = opened(TextBundle, training.start, training.length) if training.start else None
    prepared = prepare_language(config, start, folder, emit)
    job = language_job(config, prepared, start, machine)
    epochs = training.steps * training.accumulate / job.batches.batches_per_epoch
    if epochs > 20:
        text = f"{math.floor(epochs)} epochs: the model will overfit the text; "
        emit({"kind": "note", "text": text + "use fewer --steps, or --model.dropout 0.2"})
    return job


def student_job(
    config: LanguageRunConfig, teacher: TextBundle, folder: Path, machine: Machine, emit: Emit
) -> LanguageJob:
    """Return the job with the text encoded by the tokenizer of a language model."""
    check_max_length(teacher, str(config.training.start), config.training.length)
    prepared = prepare_language(config, teacher, folder, emit)
    job = language_job(config, prepared, teacher, machine)
    return replace(job, bundle=lambda model: TextBundle(model, teacher.tokenizer))


def documents_of(batch: TextBatch) -> list[View]:
    """Split packed sequences into documents, and return one view per group of equal lengths.

    A document is computed as it would be alone. Its weight is its number of tokens.
    """
    lengths = batch.lengths or [(batch.tokens.shape[1],)] * len(batch.tokens)
    tokens, is_target = batch.tokens.flatten(), batch.targets.flatten() != IGNORED
    views = []
    for group in Documents(lengths, batch.tokens.device).apart.groups:
        rows, sizes = tokens[group.tokens], group.lengths  # N L
        keys = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]

        def logits(model: GPT, rows: Tensor = rows) -> Tensor:
            computed: Tensor = model(rows)
            return computed

        views.append(
            View(
                logits=logits,
                keys=keys,
                target_mask=is_target[group.tokens] & keys,
                weights=sizes.float(),
                count=group.num_tokens,
            )
        )
    return views
