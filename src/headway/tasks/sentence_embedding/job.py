"""The job of a sentence-embedding run: fine-tunes an encoder on pairs of similar texts.

Reimers and Gurevych 2019; Henderson et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headway.base.devices import Machine
from headway.base.settings import override
from headway.bundle import EncoderBundle
from headway.data.stream import Batches, ByLength
from headway.models import Bert
from headway.models.bert_heads import remove_heads
from headway.tasks.finetuning import describe_shape, load_encoder, with_head
from headway.tasks.job import (
    Emit,
    Job,
    Summary,
    planned_steps,
    update_size,
)
from headway.tasks.sentence_embedding.config import EmbedRunConfig, EmbedScoring
from headway.tasks.sentence_embedding.data import FILE, PreparedPairs, prepare_pairs
from headway.tasks.sentence_embedding.evaluation import evaluate
from headway.tasks.sentence_embedding.objective import ContrastiveObjective, CosineObjective
from headway.tasks.sentence_embedding.similar_pairs import SimilarBatch, SimilarPairs

EmbedJob = Job[SimilarBatch, SimilarPairs, EmbedScoring]


def embedding_job(
    config: EmbedRunConfig,
    prepared: PreparedPairs,
    start: EncoderBundle,
    machine: Machine,
    is_new: bool = False,
) -> EmbedJob:
    """Return the job that fine-tunes an encoder on pairs of similar texts.

    is_new: whether the run has just been started, not resumed; the pre-trained encoder is then
    evaluated before training.
    """
    train, training, pad = prepared.train, config.training, start.tokenizer.special_tokens.pad
    batches = Batches(
        ByLength(train.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: train.batch(chosen, pad),
        machine.device,
    )
    objective: CosineObjective | ContrastiveObjective = CosineObjective(start.pooling)
    if train.scores is None:
        objective = ContrastiveObjective(training.scale, training.symmetric, start.pooling)
    steps = planned_steps(training, batches.batches_per_epoch, least=500)
    metric = "reciprocal_rank" if prepared.held_out.scores is None else "spearman"
    config = override(config, {**steps, "evaluation.metric": metric}, "the pairs")
    evaluation = EmbedScoring(pairs=config.evaluation.pairs)

    def bundle(model: Bert) -> EncoderBundle:
        return EncoderBundle(model, start.tokenizer, start.pooling, start.length)

    def baseline(progress: Callable[[int], None]) -> str:
        encoder = bundle(start.model.to(machine.device))
        with machine.precision():
            scores = evaluate(encoder, prepared.held_out, evaluation, progress)
        metrics = ", ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
        return f"before training: {metrics}"

    pooling = "mean of all tokens" if start.pooling == "mean" else "[CLS]"
    return Job(
        config=config,
        # heads would not be trained; the pooler stays, as an initialisation for other tasks
        build=with_head(start, config, lambda bert: remove_heads(bert, bert.config.pooler)),
        batches=batches,
        objective=objective,
        held_out=prepared.held_out,
        evaluation=evaluation,
        bundle=bundle,
        summary=Summary(
            model=f"{describe_shape(start)}, pooling: {pooling}",
            batches=f"{update_size(training, batches.examples_per_epoch):,} pairs",
            unit="pairs",
        ),
        baseline=baseline if is_new else None,
    )


def prepare(config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> EmbedJob:
    """Load the pre-trained encoder, and encode the pairs."""
    start = load_encoder(config.training.start)
    is_new = not (folder / FILE).exists()
    room = start.config.max_length
    prepared = prepare_pairs(config, start.tokenizer, room, folder, emit)
    return embedding_job(config, prepared, start, machine, is_new)
