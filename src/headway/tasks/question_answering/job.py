"""The job of a question-answering run: fine-tunes an encoder on questions with answers.

Devlin et al. 2019, section 4.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.data.stream import Indices
from headway.models import Bert, BertQuestionAnswering
from headway.tasks.encoder_job import EncoderJob
from headway.tasks.finetuning import load_encoder
from headway.tasks.job import Emit, Job
from headway.tasks.question_answering.bundle import QuestionAnsweringBundle
from headway.tasks.question_answering.config import AnswerRunConfig, AnswerScoring
from headway.tasks.question_answering.data import PreparedQuestions, prepare_answers
from headway.tasks.question_answering.objective import AnsweringObjective
from headway.tasks.question_answering.windows import AnswerBatch


class AnswerJob(EncoderJob):
    """A `Job` that fine-tunes an encoder with a head for start and end of the answer."""

    unit = targets = "windows"

    def __init__(
        self,
        config: AnswerRunConfig,
        prepared: PreparedQuestions,
        start: EncoderBundle,
        machine: Machine,
    ) -> None:
        self.prepared, self.held_out = prepared, prepared.held_out
        self.evaluation = AnswerScoring(questions=config.evaluation.questions)
        self.objective = AnsweringObjective()
        lengths = [len(window.ids) for window in prepared.train.windows]
        super().__init__(config, start, machine, lengths, least=1000, passes=2.0)

    def batch(self, chosen: Indices) -> AnswerBatch:
        return self.prepared.train.batch(chosen, self.pad)

    def with_head(self, bert: Bert) -> BertQuestionAnswering:
        return BertQuestionAnswering(bert)

    def bundle(self, model: Any) -> QuestionAnsweringBundle:
        return QuestionAnsweringBundle(model, self.prepared.reader)


def prepare(config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the pre-trained encoder, and encode the questions."""
    start = load_encoder(config.training.start)
    shape = (start.model.max_length, start.config.token_types > 1)
    prepared = prepare_answers(config, start.tokenizer, shape, folder, emit)
    return AnswerJob(config, prepared, start, machine)
