"""How a terminal shows answers and the scores of a question-answering model."""

from __future__ import annotations

from headway.evaluation.scores import Scores
from headway.tasks.question_answering.bundle import AnsweredQuestion
from headway.tasks.task import Styled


def prediction_line(prediction: AnsweredQuestion) -> Styled:
    """Format the answers with their probabilities, separated by tabs."""
    parts: Styled = []
    for answer in prediction.answers:
        words = " ".join(answer.text.split())
        parts += [(words, "bold"), (f"\t{answer.probability:.3f}", ""), ("\t", "")]
    return parts[:-1]


def score_line(scores: Scores) -> str:
    """Format exact match, F1 and the number of questions."""
    count = scores.counts["questions"]
    return f"exact match {scores['exact']:.3f}   F1 {scores['f1']:.3f}   {count:,} questions"
