"""The questions of encoded conversations, which a model is asked in an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.data.split import evenly_spaced
from headway.data.store import Array
from headway.tasks.dialogue_store import EncodedDialogues


@dataclass(frozen=True)
class Question:
    """The tokens up to the last answer of a conversation, and those of this answer."""

    prompt: list[int]
    answer: list[int]


def question_of(tokens: Array, is_target: Array) -> Question:
    """Return the last question of a conversation that has a target, as `sequence` returns it."""
    last = int(is_target.nonzero()[0][-1]) + 1
    start = last - 1
    while start > 1 and is_target[start - 1]:
        start -= 1
    return Question(tokens[:start].tolist(), tokens[start:last].tolist())


def questions_of(
    dialogues: EncodedDialogues, ends: Sequence[int], most: int | None
) -> list[Question]:
    """Return the last questions of at most `most` conversations, evenly spaced; None: all.

    ends: the tokens that end an answer; a truncated answer has none, and is left out.
    """
    questions = [question_of(*dialogues.sequence(i)) for i in range(len(dialogues))]
    whole = [question for question in questions if question.answer[-1] in ends]
    return [whole[i] for i in evenly_spaced(len(whole), most)]
