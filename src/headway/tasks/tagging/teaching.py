"""Students of taggers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.data.word_targets import WordBatch
from headway.tasks.job import Emit
from headway.tasks.sections import BalancedConfig
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.config import TagDataConfig, TagEvaluationConfig, TagRunConfig
from headway.tasks.tagging.data import check_tags, prepare_tags_for_reader
from headway.tasks.tagging.job import TagJob
from headway.tasks.teaching import StudentData, Students, view_of
from headway.training import View


def _as_tagging(config: Any) -> TagRunConfig:
    """Return the configuration of a tagging run on the same examples."""
    training = config.training
    return TagRunConfig(
        recipe=config.recipe,
        data=config.data,
        training=BalancedConfig(
            batch_size=training.batch_size, seed=training.seed, start=training.teacher
        ),
        evaluation=config.evaluation,
    )


def _check(config: Any) -> None:
    check_tags(_as_tagging(config))


def _prepare(
    config: Any, teacher: TaggerBundle, folder: Path, machine: Machine, emit: Emit
) -> StudentData:
    """Encode the sentences with the reader of the teacher."""
    reader = teacher.reader
    prepared = prepare_tags_for_reader(config.data, reader, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    job = TagJob(_as_tagging(config), prepared, encoder, machine)

    def views(batch: WordBatch) -> list[View]:
        return [replace(view_of(batch.texts), target_mask=batch.words)]

    return StudentData(
        train_batches=job.train_batches,
        views=views,
        held_out=job.held_out,
        evaluation=job.evaluation,
        bundle=lambda model: TaggerBundle(model, reader),
        unit="sentences",
        decided={
            "data.max_length": reader.max_length,
            "evaluation.metric": job.config.evaluation.metric,
        },
    )


STUDENTS = Students(
    data=TagDataConfig(),
    evaluation=TagEvaluationConfig(),
    check=_check,
    prepare=_prepare,
    decided=lambda config: frozenset({"data.max_length", "evaluation.metric"}),
)
