"""Exact match and F1 of question answering, by the official rules of SQuAD 1.1.

Rajpurkar et al. 2016, section 6.1.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """Exact match and F1, from 0 to 1: the fraction of exact answers, and the mean word F1."""

    exact: float
    f1: float
    questions: int


def score_answers(predicted: Sequence[str], true: Sequence[Sequence[str]]) -> AnswerScores:
    """Score one predicted answer per question against all true answers; the best match counts."""
    if len(predicted) != len(true) or not predicted:
        raise ValueError(f"{len(predicted)=} and {len(true)=} must be equal and not 0")
    exact = f1 = 0.0
    for answer, true_answers in zip(predicted, true, strict=True):
        exact += max(float(plain_words(answer) == plain_words(text)) for text in true_answers)
        f1 += max(word_f1(answer, text) for text in true_answers)
    return AnswerScores(exact / len(predicted), f1 / len(predicted), len(predicted))


def plain_words(text: str) -> list[str]:
    """Return the words in lower case, without ASCII punctuation and the articles a, an, the."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def word_f1(predicted: str, true: str) -> float:
    """Return the F1 of the words of an answer, in any order; 0 without a common word."""
    words, true_words = plain_words(predicted), plain_words(true)
    common = (Counter(words) & Counter(true_words)).total()
    return 2 * common / (len(words) + len(true_words)) if common else 0.0
