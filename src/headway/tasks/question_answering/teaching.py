"""Students of question-answering models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.tasks.job import Emit
from headway.tasks.question_answering.bundle import QuestionAnsweringBundle
from headway.tasks.question_answering.config import (
    AnswerDataConfig,
    AnswerEvaluationConfig,
    AnswerRunConfig,
    AnswerTrainingConfig,
)
from headway.tasks.question_answering.data import check_answers, prepare_answers_for_reader
from headway.tasks.question_answering.job import AnswerJob
from headway.tasks.question_answering.windows import AnswerBatch
from headway.tasks.teaching import StudentData, Students, view_of
from headway.training import View


def _as_answering(config: Any) -> AnswerRunConfig:
    """Return the configuration of a question-answering run on the same examples."""
    training = config.training
    return AnswerRunConfig(
        recipe=config.recipe,
        data=config.data,
        training=AnswerTrainingConfig(
            batch_size=training.batch_size, seed=training.seed, start=training.teacher
        ),
        evaluation=config.evaluation,
    )


def _check(config: Any) -> None:
    check_answers(_as_answering(config))


def _prepare(
    config: Any, teacher: QuestionAnsweringBundle, folder: Path, machine: Machine, emit: Emit
) -> StudentData:
    """Encode the questions with the reader of the teacher."""
    reader = teacher.reader
    typed = teacher.model.config.bert.token_types > 1
    prepared = prepare_answers_for_reader(config.data, reader, typed, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    job = AnswerJob(_as_answering(config), prepared, encoder, machine)

    def views(batch: AnswerBatch) -> list[View]:
        return [replace(view_of(batch.texts), over_positions=True)]

    return StudentData(
        train_batches=job.train_batches,
        views=views,
        held_out=job.held_out,
        evaluation=job.evaluation,
        bundle=lambda model: QuestionAnsweringBundle(model, reader),
        unit="windows",
        decided={"data.window": reader.window, "data.stride": reader.stride},
    )


STUDENTS = Students(
    data=AnswerDataConfig(),
    evaluation=AnswerEvaluationConfig(),
    check=_check,
    prepare=_prepare,
    decided=lambda config: frozenset({"data.window", "data.stride"}),
)
