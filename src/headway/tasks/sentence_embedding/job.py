"""A training run of a sentence encoder: from an encoder and pairs of similar texts.

Reimers and Gurevych 2019; Henderson et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from headway.bundle import EncoderBundle
from headway.data.by_length import ByLength
from headway.machine import Machine
from headway.models.bert_tasks import drop_heads
from headway.settings import override
from headway.tasks.finetuning import copy_of
from headway.tasks.job import Emit, Job, planned_steps, prepare_blocks
from headway.tasks.opening import load_as
from headway.tasks.sentence_embedding.config import EmbedRunConfig, EmbedScoring
from headway.tasks.sentence_embedding.data import FILE, PreparedPairs, prepare_pairs
from headway.tasks.sentence_embedding.evaluation import evaluate
from headway.training import ContrastiveObjective, CosineObjective, Objective, Stream


class EmbedJob:
    """A `Job`: an encoder, and pairs of texts that mean the same or nearly."""

    def __init__(
        self,
        config: EmbedRunConfig,
        prepared: PreparedPairs,
        start: EncoderBundle,
        machine: Machine,
        is_new: bool = False,
    ) -> None:
        self.held_out = prepared.held_out
        self.evaluation = EmbedScoring(pairs=config.evaluation.pairs)
        scored = prepared.held_out.scores is not None
        self.is_new = is_new
        self.prepared, self.start, self.machine = prepared, start, machine
        training, self.pad = config.training, start.tokenizer.marks.pad
        self.objective: Objective = CosineObjective(start.pooling)
        if prepared.train.scores is None:
            self.objective = ContrastiveObjective(training.scale, training.symmetric, start.pooling)
        train = prepared.train
        self.rows = ByLength(
            train.lengths,
            lambda chosen: train.batch(chosen, self.pad).to(machine.device),
            training.rows,
            training.seed,
        )
        decided = {
            **planned_steps(training, self.rows.batches_an_epoch, 500),
            "evaluation.metric": "spearman" if scored else "reciprocal_rank",
        }
        self.config: EmbedRunConfig = override(config, decided, "the pairs")

    def build(self) -> nn.Module:
        bert = copy_of(self.start, self.config.model.dropout)
        # heads that do not learn along fit no more afterwards; the pooler is a start for others
        drop_heads(bert, bert.config.pooler)
        prepare_blocks(bert, self.config.training, self.config.machine, bert, "encode")
        return bert

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """The scores of the encoder that it starts from, when the run is new."""
        if not self.is_new:
            return None
        start = self.bundle(self.start.model.to(self.machine.device))
        with self.machine.precision():
            scores = evaluate(start, self.held_out, self.evaluation, progress)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
        return f"before training: {shown}"

    def bundle(self, model: Any) -> EncoderBundle:
        return EncoderBundle(model, self.start.tokenizer, self.start.pooling, self.start.length)

    def plan(self) -> dict[str, Any]:
        bert, training = self.start.config, self.config.training
        return {
            "model": f"{bert.num_layers} layers, d={bert.model_dim}, {bert.num_heads} heads, "
            f"a text's vector is {'its mean' if self.start.pooling == 'mean' else '[CLS]'}",
            "batches": f"{training.rows * training.accumulate:,} pairs",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "pairs",
        }


def prepare(config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """The pairs, encoded, and the encoder that is fine-tuned."""
    start = load_as(EncoderBundle, str(config.training.start))
    is_new = not (folder / FILE).exists()
    room = start.config.max_length
    prepared = prepare_pairs(config, start.tokenizer, room, folder, emit)
    return EmbedJob(config, prepared, start, machine, is_new)
