"""From a person's questions to windows in memory, and a note in the run folder of which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.questions import Answer, Question, check_questions, read_questions
from headway.errors import DataError, UsageError
from headway.tasks.finetuning import check_start, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.question_answering.bundle import AnswerReader
from headway.tasks.question_answering.config import AnswerDataConfig, AnswerRunConfig
from headway.tasks.question_answering.windows import AnswerTexts, Window, covered
from headway.tasks.splits import check_sides, hold_out
from headway.text import MarkedTokenizer

FILE = "texts.json"


@dataclass(frozen=True)
class PreparedQuestions:
    """What a question-answering model is trained on, encoded, and the held-out questions."""

    reader: AnswerReader
    train: AnswerTexts
    held_out: list[Question]


def check_answers(config: AnswerRunConfig) -> None:
    """UsageError unless there are questions, and a model to start from."""
    if not config.data.train:
        raise UsageError(
            "there are no questions to learn from",
            hint=f"headway train {config.recipe} FILE --from MODEL, where FILE is "
            "SQuAD's .json, or .jsonl",
        )
    for name in (*config.data.train, *config.data.valid):
        check_questions(Path(name))
    check_start(config.training.start, "an answerer")


def answered_questions(data: AnswerDataConfig) -> tuple[list[Question], list[Question]]:
    """What is trained on, and what is held out: data.valid, or some of data.train.

    Which of them follows from the context alone, so that no context is on both sides. DataError
    where a side is empty, or for a question without an answer unless those are to be left out.
    """
    given = _answered(data.train, data.skip_impossible)
    if data.valid:
        return given, _answered(data.valid, data.skip_impossible)
    train, valid = hold_out(given, lambda question: question.context, data.held_out)
    contexts = len({question.context for question in given})
    check_sides(train, valid, f"the questions on {contexts:,} contexts", ", ".join(data.train))
    return train, valid


def _answered(names: tuple[str, ...], skip: bool) -> list[Question]:
    found = []
    for each in read_questions([Path(name) for name in names]):
        if each.answers:
            found.append(each)
        elif not skip:
            raise DataError(
                f"question {each.id} has no answer in its context, and every question needs one",
                each.where,
                "--data.skip-impossible true leaves such questions out",
            )
    if not found:
        raise DataError("there is no question with an answer", ", ".join(names))
    return found


def prepare_answers(
    config: AnswerRunConfig,
    tokenizer: MarkedTokenizer,
    shape: tuple[int | None, bool],
    folder: Path,
    emit: Emit,
) -> PreparedQuestions:
    """The examples, encoded. DataError if the run began with others.

    shape: the most ids that the model to start from has places for (None for any number), and
    whether it knows two kinds of text.
    """
    data, (room, typed) = config.data, shape
    window = data.window if room is None else min(data.window, room)
    reader = AnswerReader(tokenizer, window, data.stride)
    return prepare_answers_as(data, reader, typed, folder, emit)


def prepare_answers_as(
    data: AnswerDataConfig, reader: AnswerReader, typed: bool, folder: Path, emit: Emit
) -> PreparedQuestions:
    """The same for a model that has its windows already."""
    train, valid = answered_questions(data)
    encoded = _encoded(train, reader, typed)
    room = reader.question_room
    longer = sum(length > room for length in reader.lengths([each.question for each in train]))
    if longer:
        text = f"{longer:,} questions of train have more than {room} tokens; the first are read"
        emit({"kind": "note", "text": text})
    seen = [list(each.ids) for each in encoded.windows], encoded.targets
    asked = [[each.question, each.context, [a.text for a in each.answers]] for each in valid]
    check_unchanged(folder / FILE, reader.fingerprint, [seen, asked])
    for name, side in (("train", train), ("valid", valid)):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "questions"})
    without = sum(target == (0, 0) for target in encoded.targets)
    text = f"{len(encoded.windows):,} windows of at most {reader.window} tokens to train on, "
    emit({"kind": "note", "text": text + f"{without:,} of them without the answer"})
    return PreparedQuestions(reader, encoded, valid)


def learned_answer(question: Question) -> Answer:
    """The answer that most people gave; the first of them where they disagree."""
    return Counter(question.answers).most_common(1)[0][0]


def _encoded(questions: list[Question], reader: AnswerReader, typed: bool) -> AnswerTexts:
    windows: list[Window] = []
    targets: list[tuple[int, int]] = []
    for each in questions:
        asked, answer = reader.encode(each.question, each.context), learned_answer(each)
        span = covered(asked.spans, answer.start, answer.start + len(answer.text))
        if span is None:
            raise DataError(
                f"question {each.id}: the tokenizer makes nothing of the answer {answer.text!r}",
                each.where,
            )
        windows += asked.windows
        targets += [window.place(span) for window in asked.windows]
    return AnswerTexts(windows, targets, typed)
