"""The questions of encoded conversations, which a model is asked in an evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.data.split import evenly_spaced
from headway.tasks.dialogue_store import EncodedDialogues


@dataclass(frozen=True)
class Question:
    """The tokens up to the last answer of a conversation, those of this answer, and its kind."""

    prompt: list[int]
    answer: list[int]
    kind: str = ""


def question_of(dialogues: EncodedDialogues, index: int) -> Question:
    """Return the last question of a conversation that has a target."""
    tokens, is_target = dialogues.sequence(index)
    last = int(is_target.nonzero()[0][-1]) + 1
    start = last - 1
    while start > 1 and is_target[start - 1]:
        start -= 1
    kind = dialogues.kinds[index] if dialogues.kinds else ""
    return Question(tokens[:start].tolist(), tokens[start:last].tolist(), kind)


def questions_of(
    dialogues: EncodedDialogues, ends: Sequence[int], most: int | None
) -> list[Question]:
    """Return the last questions of at most `most` conversations, evenly spaced; None: all.

    ends: the tokens that end an answer; a truncated answer has none, and is left out.
    """
    questions = [question_of(dialogues, i) for i in range(len(dialogues))]
    whole = [question for question in questions if question.answer[-1] in ends]
    return [whole[i] for i in evenly_spaced(len(whole), most)]
