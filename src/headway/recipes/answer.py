"""Answerers of questions as a run: an encoder and answered questions in, an answerer out.

Devlin et al. 2019, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from headway.bundle import AnswererBundle, EncoderBundle
from headway.data.answers import AnswerBatch
from headway.data.by_length import ByLength
from headway.evaluation import score_answers
from headway.machine import Machine
from headway.models import BertAnswerer
from headway.recipes.answer_config import AnswerRunConfig
from headway.recipes.answer_data import PreparedQuestions, check_answers, prepare_answers
from headway.settings import override
from headway.tasks.finetuning import copy_of, open_start, shape_of
from headway.tasks.job import Emit, Family, Job, planned_steps, prepare_blocks
from headway.training import AnsweringObjective, Stream

ASKED = 8  # questions asked at once at an evaluation


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

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Of held-out questions: answers exactly right, and F1 of their words, SQuAD's way."""
        training, valid = model.training, self.prepared.valid
        bundle = AnswererBundle(model, self.prepared.reader)
        found: list[str] = []
        for start in range(0, len(valid), ASKED):
            go_on()
            some = valid[start : start + ASKED]
            with self.machine.precision():
                answers = bundle.answer_all([(each.question, each.context) for each in some])
            found += [best[0].text if best else "" for best in answers]
        model.train(training)
        scores = score_answers(found, [[a.text for a in each.answers] for each in valid])
        return {"f1": scores.f1, "exact": scores.exact}

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


def _prepare(config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = open_start(config.training.start)
    shape = (start.model.max_length, start.config.token_types > 1)
    prepared = prepare_answers(config, start.tokenizer, shape, folder, emit)
    return AnswerJob(config, prepared, start, machine)


ANSWERING = Family(check=check_answers, prepare=_prepare)
