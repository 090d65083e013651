"""Reads questions, each with a context that contains its answer (extractive question answering):
SQuAD's .json, and .jsonl, plain or .gz.

Rajpurkar et al. 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.formats.lines import check_file, ending, location, read_lines
from headway.errors import DataError
from headway.files import parse_json

ENDINGS = (".json", ".jsonl")
LONGEST = 512 * 2**20  # SQuAD is one line of some 30 MB
_SHOWN = 60


@dataclass(frozen=True)
class Answer:
    """A span of a context. start: the index of its first character in the context."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question, the context to answer it from, and the reference answers.

    answers: reference answers, possibly from several annotators; `context[a.start :]` begins with
    `a.text`. Empty if the context does not contain an answer (SQuAD 2.0). where: the file, and the
    question's id or its line.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    where: str


def read_questions(paths: Sequence[Path]) -> Iterator[Question]:
    """Yield the questions of files in order.

    A .json file has the format of SQuAD 1.1 and 2.0: data, paragraphs, qas. Each line of a .jsonl
    file is an object with question, context, answer and start (the character index of the answer),
    and optionally id.

    Raises UsageError for a missing file or an unknown suffix; DataError with file and question for
    another structure, an empty text, or an answer that is not in the context at its start.
    """
    for path in paths:
        check_questions(path)
        yield from (_lines if ending(path) == ".jsonl" else _squad)(path)


def check_questions(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, "questions")


def _squad(path: Path) -> Iterator[Question]:
    where = str(path)
    content = parse_json("\n".join(read_lines(path, LONGEST)).encode(), where)
    for i, article in enumerate(_list(content, "data", where)):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{where}, article {i + 1}")):
            inside = f"{where}, article {i + 1}, paragraph {j + 1}"
            context = _text(paragraph, "context", inside)
            for k, row in enumerate(_list(paragraph, "qas", inside)):
                question_id = _text(row, "id", f"{inside}, question {k + 1}")
                yield _question(row, question_id, context, f"{where}, question {question_id}")


def _question(row: Any, question_id: str, context: str, where: str) -> Question:
    text = _text(row, "question", where)
    if row.get("is_impossible") is True:
        return Question(question_id, text, context, (), where)
    answers = [
        Answer(_text(answer, "text", where), _number(answer, "answer_start", where))
        for answer in _list(row, "answers", where)
    ]
    if not answers:
        raise DataError(
            "the question has no answer",
            where,
            'add one, or label the question as unanswerable: "is_impossible": true',
        )
    return _checked(Question(question_id, text, context, tuple(answers), where))


def _lines(path: Path) -> Iterator[Question]:
    for number, line in enumerate(read_lines(path, LONGEST), start=1):
        if not line.strip():
            continue
        where = location(path, number)
        row = parse_json(line.encode(), where)
        texts = [_text(row, key, where) for key in ("question", "context", "answer")]
        question_id = _text(row, "id", where) if "id" in row else str(number)
        answer = Answer(texts[2], _number(row, "start", where))
        yield _checked(Question(question_id, texts[0], texts[1], (answer,), where))


def _checked(question: Question) -> Question:
    for answer in question.answers:
        start = answer.start
        passage = question.context[start : start + len(answer.text)]
        if passage != answer.text:
            raise DataError(
                f"question {question.id}: the answer {answer.text[:_SHOWN]!r} must be in the "
                f"context at character {start}, but {passage[:_SHOWN]!r} is there",
                question.where,
                "correct the start: it counts Unicode characters from 0, not bytes",
            )
    return question


def _list(row: Any, key: str, where: str) -> list[Any]:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, list):
        raise DataError(
            f"{key!r} is missing, or not a list",
            where,
            "use the format of SQuAD: data, paragraphs, qas",
        )
    return value


def _text(row: Any, key: str, where: str) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value.strip():
        fault = "empty" if isinstance(value, str) else "missing, or not a text"
        raise DataError(f"the value of {key!r} is {fault}", where, "enter a text")
    return value


def _number(row: Any, key: str, where: str) -> int:
    value = row.get(key)
    if type(value) is not int or value < 0:
        raise DataError(
            f"{key!r} must be a whole number of at least 0",
            where,
            "set it to the index of the answer's first character in the context",
        )
    return value
