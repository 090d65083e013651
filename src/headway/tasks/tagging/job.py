"""The job of a tagging run: fine-tunes an encoder on tagged sentences.

Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.data.stream import Indices
from headway.data.word_targets import WordBatch
from headway.models import Bert, BertTagger
from headway.tasks.encoder_job import EncoderJob
from headway.tasks.finetuning import balanced, describe_shape, load_encoder
from headway.tasks.job import Emit, Job
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.config import TagRunConfig
from headway.tasks.tagging.data import PreparedTags, prepare_tags
from headway.tasks.tagging.objective import TaggingObjective
from headway.tasks.tagging.spans import are_span_tags
from headway.tasks.task import NO_OPTIONS


class TagJob(EncoderJob):
    """A `Job` that fine-tunes an encoder with a head on the first token of every word."""

    def __init__(
        self, config: TagRunConfig, prepared: PreparedTags, start: EncoderBundle, machine: Machine
    ) -> None:
        self.prepared, self.reader = prepared, prepared.reader
        self.held_out, self.evaluation = prepared.held_out, NO_OPTIONS
        train, tags = prepared.train, prepared.reader.tags
        counts = Counter(tag for row in train.targets for tag in row)
        self.objective = TaggingObjective(
            balanced(counts, len(tags)) if config.training.balance else ()
        )
        super().__init__(
            config,
            start,
            machine,
            [len(row.ids) for row in train.rows],
            least=1000,
            passes=3.0,
            decided={} if are_span_tags(tags) else {"evaluation.metric": "accuracy"},
        )

    def batch(self, chosen: Indices) -> WordBatch:
        return self.prepared.train.batch(chosen, self.pad)

    def with_head(self, bert: Bert) -> BertTagger:
        return BertTagger(bert, len(self.reader.tags), self.config.model.head_dropout)

    def bundle(self, model: Any) -> TaggerBundle:
        return TaggerBundle(model, self.reader)

    @property
    def described(self) -> str:
        return f"{describe_shape(self.start)}, {len(self.reader.tags)} tags"


def prepare(config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the pre-trained encoder, and encode the sentences."""
    start = load_encoder(config.training.start)
    prepared = prepare_tags(config, start.tokenizer, start.model.max_length, folder, emit)
    return TagJob(config, prepared, start, machine)
