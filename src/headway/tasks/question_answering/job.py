"""The job of a question-answering run: fine-tunes an encoder on questions with answers.

Devlin et al. 2019, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.base.devices import Machine
from headway.base.settings import override
from headway.bundle import EncoderBundle
from headway.data.stream import Batches, ByLength
from headway.models import BertQuestionAnswering
from headway.tasks.finetuning import describe_shape, load_encoder, view_of, with_head
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.question_answering.bundle import QuestionAnsweringBundle
from headway.tasks.question_answering.config import AnswerRunConfig, AnswerScoring
from headway.tasks.question_answering.data import (
    PreparedQuestions,
    prepare_answers,
    prepare_answers_for_reader,
)
from headway.tasks.question_answering.objective import AnsweringObjective
from headway.tasks.question_answering.question_files import Question
from headway.tasks.question_answering.windows import AnswerBatch

AnswerJob = Job[AnswerBatch, Sequence[Question], AnswerScoring]


def answering_job(
    config: AnswerRunConfig, prepared: PreparedQuestions, start: EncoderBundle, machine: Machine
) -> AnswerJob:
    """Return the job that trains an encoder with a head for start and end of the answer."""
    train, training, pad = prepared.train, config.training, start.tokenizer.special_tokens.pad
    batches = Batches(
        ByLength([len(window.ids) for window in train.windows], training.batch_size, training.seed),
        lambda chosen, epoch: train.batch(chosen, pad),
        machine.device,
    )
    steps = planned_steps(training, batches.batches_per_epoch, least=1000, passes=2.0)
    config = override(config, steps, "the windows")
    return Job(
        config=config,
        build=with_head(start, config, BertQuestionAnswering),
        batches=batches,
        objective=AnsweringObjective(),
        held_out=prepared.held_out,
        evaluation=AnswerScoring(questions=config.evaluation.questions),
        bundle=lambda model: QuestionAnsweringBundle(model, prepared.reader),
        summary=Summary(
            model=describe_shape(start),
            batches=f"{update_size(training, batches.examples_per_epoch):,} windows",
            unit="windows",
        ),
        views=lambda batch: [replace(view_of(batch.texts), over_positions=True)],
    )


def prepare(config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> AnswerJob:
    """Load the pre-trained encoder, and encode the questions."""
    start = load_encoder(config.training.start)
    shape = (start.model.max_length, start.config.token_types > 1)
    prepared = prepare_answers(config, start.tokenizer, shape, folder, emit)
    return answering_job(config, prepared, start, machine)


def student_job(
    config: AnswerRunConfig,
    teacher: QuestionAnsweringBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> AnswerJob:
    """Return the job with the questions encoded by the reader of a question-answering model."""
    reader = teacher.reader
    windows = {"data.window": reader.window, "data.stride": reader.stride}
    config = override(config, windows, "the teacher")
    typed = teacher.model.config.bert.token_types > 1
    prepared = prepare_answers_for_reader(config.data, reader, typed, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    return answering_job(config, prepared, encoder, machine)
