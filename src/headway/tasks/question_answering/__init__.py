"""Extractive question answering: find the span of a context that answers a question.

Devlin et al. 2019, section 4.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import HeadwayWarning
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.question_answering.bundle import (
    AnsweredQuestion,
    AnswerInput,
    AnswerOptions,
    QuestionAnsweringBundle,
)
from headway.tasks.question_answering.config import AnswerRunConfig, AnswerScoring, answer
from headway.tasks.question_answering.data import answered_questions, check_answers
from headway.tasks.question_answering.evaluation import ALL_QUESTIONS, evaluate
from headway.tasks.question_answering.foreign import from_hugging_face, to_hugging_face
from headway.tasks.question_answering.job import prepare
from headway.tasks.question_answering.question_files import Question, read_questions
from headway.tasks.question_answering.show import prediction_line, score_line
from headway.tasks.question_answering.teaching import STUDENTS
from headway.tasks.task import BundleSpec, Styled
from headway.tasks.truncation import warn_of_truncation


class QuestionAnswering:
    """The `Task` of question answering."""

    name = "question_answering"
    config: type[Any] = AnswerRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"answer": answer}
    bundles: Mapping[str, BundleSpec] = {
        "bert-answerer": BundleSpec(
            bundle=QuestionAnsweringBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    option_names: Mapping[str, str] = {"top_k": "top"}
    lists_one = False
    input: type[Any] = AnswerInput
    options: type[Any] = AnswerOptions
    evaluation: type[Any] = AnswerScoring
    students = STUDENTS
    next_commands: Sequence[str] = ('answer {run} "..." --context FILE', "eval {run}")

    def check(self, config: AnswerRunConfig) -> None:
        check_answers(config)

    def prepare(self, config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: QuestionAnsweringBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: AnswerScoring,
    ) -> list[Question]:
        """Read the questions that have an answer."""
        questions = list(read_questions(list(paths)))
        answered = [question for question in questions if question.answers]
        if len(answered) < len(questions):
            text = f"{len(questions) - len(answered):,} questions without an answer are left out"
            warnings.warn(text, HeadwayWarning, stacklevel=2)
        _warn(bundle, answered)
        return answered

    def held_out(
        self, bundle: QuestionAnsweringBundle, run: Path, config: Any, options: AnswerScoring
    ) -> list[Question]:
        questions = answered_questions(config.data)[1]
        _warn(bundle, questions)
        return questions

    def evaluate(
        self,
        bundle: QuestionAnsweringBundle,
        examples: Sequence[Question],
        options: AnswerScoring = ALL_QUESTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def pipeline_form(
        self,
        bundle: QuestionAnsweringBundle,
        prediction: AnsweredQuestion,
        options: AnswerOptions,
    ) -> Any:
        answers = [
            {"answer": a.text, "score": a.probability, "start": a.start, "end": a.end}
            for a in prediction.answers
        ]
        return answers[0] if options.top == 1 and answers else answers

    def show_prediction(
        self, bundle: QuestionAnsweringBundle, prediction: AnsweredQuestion, options: AnswerOptions
    ) -> list[Styled]:
        return [prediction_line(prediction)]

    def show_scores(self, scores: Scores) -> list[str]:
        return [score_line(scores)]


def _warn(bundle: QuestionAnsweringBundle, questions: Sequence[Question]) -> None:
    """Warn of questions that are longer than the model's maximum length."""
    lengths = bundle.reader.lengths([question.question for question in questions])
    warn_of_truncation(lengths, bundle.reader.max_question_length, "question")


TASK = QuestionAnswering()
