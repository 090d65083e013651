"""A training run of a tagger: from an encoder and tagged sentences to a tagger.

Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from torch import nn

from headway.bundle import EncoderBundle
from headway.data.by_length import ByLength
from headway.data.spans import tags_spans
from headway.machine import Machine
from headway.models import BertTagger
from headway.settings import override
from headway.tasks.finetuning import balanced, copy_of, open_start, shape_of
from headway.tasks.job import Emit, Job, planned_steps, prepare_blocks
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.config import TagRunConfig
from headway.tasks.tagging.data import PreparedTags, prepare_tags
from headway.tasks.tagging.objective import TaggingObjective
from headway.tasks.task import NO_OPTIONS
from headway.training import Stream


class TagJob:
    """A `Job`: an encoder, a head on every word, and sentences with tags."""

    def __init__(
        self, config: TagRunConfig, prepared: PreparedTags, start: EncoderBundle, machine: Machine
    ) -> None:
        self.prepared, self.start, self.machine = prepared, start, machine
        self.held_out, self.evaluation = prepared.held_out, NO_OPTIONS
        training, train = config.training, prepared.train
        counts = Counter(tag for row in train.tags for tag in row)
        weights = balanced(counts, len(prepared.reader.tags)) if training.balance else ()
        self.objective = TaggingObjective(weights)
        pad = start.tokenizer.marks.pad
        lengths = [len(row.ids) for row in train.rows]
        self.rows = ByLength(
            lengths,
            lambda chosen: train.batch(chosen, pad, machine.device),
            training.rows,
            training.seed,
        )
        decided: dict[str, Any] = planned_steps(training, self.rows.batches_an_epoch, 600, 3.0)
        if not tags_spans(prepared.reader.tags):
            decided["evaluation.metric"] = "accuracy"
        self.config: TagRunConfig = override(config, decided, "the tagged sentences")

    def build(self) -> nn.Module:
        given, asked = self.config.model, self.config.training
        bert = copy_of(self.start, given.dropout)
        model = BertTagger(bert, len(self.prepared.reader.tags), given.head_dropout)
        prepare_blocks(model, asked, self.config.machine, bert, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    def bundle(self, model: Any) -> TaggerBundle:
        return TaggerBundle(model, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        training = self.config.training
        return {
            "model": f"{shape_of(self.start)}, {len(self.prepared.reader.tags)} tags",
            "batches": f"{training.rows * training.accumulate:,} sentences",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "words",
        }


def prepare(config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """The sentences, encoded, and the encoder that is fine-tuned."""
    start = open_start(config.training.start)
    prepared = prepare_tags(config, start.tokenizer, start.model.max_length, folder, emit)
    return TagJob(config, prepared, start, machine)
