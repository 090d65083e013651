"""The job of a tagging run: fine-tunes an encoder on tagged sentences.

Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.base.devices import Machine
from headway.base.settings import override
from headway.bundle import EncoderBundle
from headway.data.length_batches import LengthBatches
from headway.data.word_targets import WordBatch
from headway.models import BertTagger
from headway.tasks.finetuning import balanced, describe_shape, load_encoder, view_of, with_head
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.config import TagRunConfig
from headway.tasks.tagging.data import PreparedTags, prepare_tags, prepare_tags_for_reader
from headway.tasks.tagging.objective import TaggingObjective
from headway.tasks.tagging.spans import are_span_tags
from headway.tasks.tagging.tag_files import TaggedSentence
from headway.tasks.task import NO_OPTIONS, NoOptions

TagJob = Job[WordBatch, Sequence[TaggedSentence], NoOptions]


def tagging_job(
    config: TagRunConfig, prepared: PreparedTags, start: EncoderBundle, machine: Machine
) -> TagJob:
    """Return the job that trains an encoder with a head on the first token of every word."""
    train, reader, training = prepared.train, prepared.reader, config.training
    tags, pad = reader.tags, start.tokenizer.special_tokens.pad
    batches = LengthBatches(
        [len(row.ids) for row in train.rows],
        lambda chosen: train.batch(chosen, pad, machine.device),
        training.batch_size,
        training.seed,
    )
    counts = Counter(tag for row in train.targets for tag in row)
    steps = planned_steps(training, batches.batches_per_epoch, least=1000, passes=3.0)
    metric = {} if are_span_tags(tags) else {"evaluation.metric": "accuracy"}
    config = override(config, {**steps, **metric}, "the sentences")
    dropout = config.model.head_dropout
    return Job(
        config=config,
        build=with_head(start, config, lambda bert: BertTagger(bert, len(tags), dropout)),
        batches=batches,
        objective=TaggingObjective(balanced(counts, len(tags)) if training.balance else ()),
        held_out=prepared.held_out,
        evaluation=NO_OPTIONS,
        bundle=lambda model: TaggerBundle(model, reader),
        summary=Summary(
            model=f"{describe_shape(start)}, {len(tags)} tags",
            batches=f"{update_size(training, batches.examples_per_epoch):,} sentences",
            unit="words",
        ),
        views=lambda batch: [replace(view_of(batch.texts), target_mask=batch.words)],
    )


def prepare(config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> TagJob:
    """Load the pre-trained encoder, and encode the sentences."""
    start = load_encoder(config.training.start)
    prepared = prepare_tags(config, start.tokenizer, start.model.max_length, folder, emit)
    return tagging_job(config, prepared, start, machine)


def student_job(
    config: TagRunConfig, teacher: TaggerBundle, folder: Path, machine: Machine, emit: Emit
) -> TagJob:
    """Return the job with the sentences encoded by the reader of a tagger."""
    reader = teacher.reader
    config = override(config, {"data.max_length": reader.max_length}, "the teacher")
    prepared = prepare_tags_for_reader(config.data, reader, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    return tagging_job(config, prepared, encoder, machine)
