"""The evaluation of a question-answering model: exact match and F1, as defined by SQuAD."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, HeadwayWarning
from headway.data.split import evenly_spaced
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.squad import score_answers
from headway.tasks.question_answering.bundle import QuestionAnsweringBundle
from headway.tasks.question_answering.config import AnswerScoring
from headway.tasks.question_answering.data import answered_questions
from headway.tasks.question_answering.question_files import Question, read_questions
from headway.tasks.truncation import warn_of_truncation

ALL_QUESTIONS = AnswerScoring()


def read_examples(
    bundle: QuestionAnsweringBundle, paths: Sequence[Path], config: Any, options: AnswerScoring
) -> Sequence[Question]:
    """Read the questions that have an answer. Warns of others, and of truncated questions."""
    questions = list(read_questions(list(paths)))
    answered = [question for question in questions if question.answers]
    if len(answered) < len(questions):
        text = f"{len(questions) - len(answered):,} questions without an answer are left out"
        warnings.warn(text, HeadwayWarning, stacklevel=2)
    _warn(bundle, answered)
    return answered


def held_out_examples(
    bundle: QuestionAnsweringBundle, run: Path, config: Any, options: AnswerScoring
) -> Sequence[Question]:
    """Read the held-out questions of a run. Warns of questions that are truncated."""
    questions = answered_questions(config.data)[1]
    _warn(bundle, questions)
    return questions


def _warn(bundle: QuestionAnsweringBundle, questions: Sequence[Question]) -> None:
    lengths = bundle.reader.lengths([question.question for question in questions])
    warn_of_truncation(lengths, bundle.reader.max_question_length, "question")


def evaluate(
    bundle: QuestionAnsweringBundle,
    questions: Sequence[Question],
    options: AnswerScoring = ALL_QUESTIONS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Compute F1 and exact match of the most probable answers (`score_answers`).

    progress: called before each batch with the number of questions answered so far. Raises
    DataError if there is no question, and for a question without an answer.
    """
    if not questions:
        raise DataError("no questions to evaluate")
    for question in questions:
        if not question.answers:
            raise DataError(f"question {question.id} has no answer in its context", question.where)
    chosen = [questions[i] for i in evenly_spaced(len(questions), options.questions)]
    pairs = [(question.question, question.context) for question in chosen]
    answers = bundle.answer_all(pairs, progress=progress)
    predictions = [best[0].text if best else "" for best in answers]
    targets = [[answer.text for answer in question.answers] for question in chosen]
    scores = score_answers(predictions, targets)
    metrics = (Metric("f1", scores.f1), Metric("exact", scores.exact))
    return Scores(metrics, {"questions": scores.questions})
