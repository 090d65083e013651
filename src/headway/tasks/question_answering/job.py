"""A training run of a question-answering model: from an encoder and answered questions.

Devlin et al. 2019, section 4.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from headway.bundle import EncoderBundle
from headway.data.by_length import ByLength
from headway.machine import Machine
from headway.models import BertAnswerer
from headway.settings import override
from headway.tasks.finetuning import copy_of, open_start, shape_of
from headway.tasks.job import Emit, Job, planned_steps, prepare_blocks
from headway.tasks.question_answering.bundle import AnswererBundle
from headway.tasks.question_answering.config import AnswerRunConfig, AnswerScoring
from headway.tasks.question_answering.data import PreparedQuestions, prepare_answers
from headway.tasks.question_answering.objective import AnsweringObjective
from headway.tasks.question_answering.windows import AnswerBatch
from headway.training import Stream


class AnswerJob:
    """A `Job`: an encoder, a head for begin and end, and questions with contexts."""

    def __init__(
        self,
        config: AnswerRunConfig,
        prepared: PreparedQuestions,
        start: EncoderBundle,
        machine: Machine,
    ) -> None:
        self.prepared, self.start, self.machine = prepared, start, machine
        self.held_out = prepared.held_out
        self.evaluation = AnswerScoring(questions=config.evaluation.questions)
        self.objective = AnsweringObjective()
        training, lengths = config.training, [len(each.ids) for each in prepared.train.windows]
        self.rows = ByLength(lengths, self._batch, training.rows, training.seed)
        decided = planned_steps(training, self.rows.batches_an_epoch, 1000, 2.0)
        self.config: AnswerRunConfig = override(config, decided, "the questions")

    def _batch(self, chosen: list[int]) -> AnswerBatch:
        pad = self.start.tokenizer.marks.pad
        return self.prepared.train.batch(chosen, pad, self.machine.device)

    def build(self) -> nn.Module:
        bert = copy_of(self.start, self.config.model.dropout)
        model = BertAnswerer(bert)
        prepare_blocks(model, self.config.training, self.config.machine, bert, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    def bundle(self, model: Any) -> AnswererBundle:
        return AnswererBundle(model, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        training = self.config.training
        return {
            "model": shape_of(self.start),
            "batches": f"{training.rows * training.accumulate:,} windows",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "windows",
        }


def prepare(config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """The questions, encoded, and the encoder that is fine-tuned."""
    start = open_start(config.training.start)
    shape = (start.model.max_length, start.config.token_types > 1)
    prepared = prepare_answers(config, start.tokenizer, shape, folder, emit)
    return AnswerJob(config, prepared, start, machine)
