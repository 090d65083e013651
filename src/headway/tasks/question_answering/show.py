"""How a terminal and an inference server show answers, and the scores of a model."""

from __future__ import annotations

from typing import Any

from headway.evaluation.scores import Scores
from headway.tasks.question_answering.bundle import (
    AnsweredQuestion,
    AnswerOptions,
    QuestionAnsweringBundle,
)
from headway.tasks.task import Styled


def prediction_lines(
    bundle: QuestionAnsweringBundle, prediction: AnsweredQuestion, options: AnswerOptions
) -> list[Styled]:
    """Format the answers with their probabilities, separated by tabs."""
    parts: Styled = []
    for answer in prediction.answers:
        words = " ".join(answer.text.split())
        parts += [(words, "bold"), (f"\t{answer.probability:.3f}", ""), ("\t", "")]
    return [parts[:-1]]


def pipeline_form(
    bundle: QuestionAnsweringBundle, prediction: AnsweredQuestion, options: AnswerOptions
) -> Any:
    """Return the answers with their scores and spans, or only the best one."""
    answers = [
        {"answer": a.text, "score": a.probability, "start": a.start, "end": a.end}
        for a in prediction.answers
    ]
    return answers[0] if options.top == 1 and answers else answers


def score_lines(scores: Scores) -> list[str]:
    """Format exact match, F1 and the number of questions."""
    count = scores.counts["questions"]
    return [f"exact match {scores['exact']:.3f}   F1 {scores['f1']:.3f}   {count:,} questions"]
