"""How good answers are, by the official rules of SQuAD 1.1. Rajpurkar et al. 2016, section 6.1."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """Shares, 0 to 1: answers that are exactly right, and the mean F1 of their words."""

    exact: float
    f1: float
    questions: int


def score_answers(found: Sequence[str], true: Sequence[Sequence[str]]) -> AnswerScores:
    """One answer to each question, against all that people gave: the best of them counts."""
    if len(found) != len(true) or not found:
        raise ValueError(f"{len(found)=} and {len(true)=} must be equal and not 0")
    exact = f1 = 0.0
    for said, answers in zip(found, true, strict=True):
        exact += max(float(plain_words(said) == plain_words(answer)) for answer in answers)
        f1 += max(word_f1(said, answer) for answer in answers)
    return AnswerScores(exact / len(found), f1 / len(found), len(found))


def plain_words(text: str) -> list[str]:
    """Words in lower case without ASCII punctuation and without a, an, the."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def word_f1(found: str, true: str) -> float:
    """Harmonic mean of the shares of words, in any order, that both have. 0 if they share none."""
    ours, theirs = plain_words(found), plain_words(true)
    shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0
