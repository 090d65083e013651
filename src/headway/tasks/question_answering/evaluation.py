"""The evaluation of a question-answering model: exact match and F1, as defined by SQuAD."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.base.errors import DataError
from headway.data.split import evenly_spaced
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.squad import score_answers
from headway.tasks.question_answering.bundle import QuestionAnsweringBundle
from headway.tasks.question_answering.config import AnswerScoring
from headway.tasks.question_answering.question_files import Question

ALL_QUESTIONS = AnswerScoring()


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
