"""Questions with a text that holds the answer: SQuAD's .json, and .jsonl, plain or .gz.

Rajpurkar et al. 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.formats.lines import check_file, ending, place, read_lines
from headway.errors import DataError
from headway.files import parse_json

ENDINGS = (".json", ".jsonl")
LONGEST = 512 * 2**20  # SQuAD is one line of some 30 MB
_SHOWN = 60


@dataclass(frozen=True)
class Answer:
    """A piece of a context. start: its first character there."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """context[a.start :] begins with a.text for each of the answers; several people gave them.

    answers: none where the context does not hold it (SQuAD 2.0). where: the file and the question's
    id, or its line.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    where: str


def read_questions(paths: Sequence[Path]) -> Iterator[Question]:
    """The questions of files in order.

    .json: as SQuAD 1.1 and 2.0 have it, data - paragraphs - qas. .jsonl: on each line an object
    with question, context, answer and start (a number of characters), perhaps with id.

    UsageError for a missing file or another ending; DataError with file and question for what is
    not of that form, an empty text, and an answer that does not stand where it says.
    """
    for path in paths:
        check_questions(path)
        yield from (_lines if ending(path) == ".jsonl" else _squad)(path)


def check_questions(path: Path) -> None:
    """UsageError unless the file is there and has one of the endings."""
    check_file(path, ENDINGS, "questions")


def _squad(path: Path) -> Iterator[Question]:
    where = str(path)
    facts = parse_json("\n".join(read_lines(path, LONGEST)).encode(), where)
    for i, article in enumerate(_list(facts, "data", where)):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{where}, article {i + 1}")):
            inside = f"{where}, article {i + 1}, paragraph {j + 1}"
            context = _text(paragraph, "context", inside)
            for k, row in enumerate(_list(paragraph, "qas", inside)):
                name = _text(row, "id", f"{inside}, question {k + 1}")
                yield _question(row, name, context, f"{where}, question {name}")


def _question(row: Any, name: str, context: str, where: str) -> Question:
    asked = _text(row, "question", where)
    if row.get("is_impossible") is True:
        return Question(name, asked, context, (), where)
    answers = [
        Answer(_text(each, "text", where), _number(each, "answer_start", where))
        for each in _list(row, "answers", where)
    ]
    if not answers:
        raise DataError("the question has no answer", where)
    return _checked(Question(name, asked, context, tuple(answers), where))


def _lines(path: Path) -> Iterator[Question]:
    for number, line in enumerate(read_lines(path, LONGEST), start=1):
        if not line.strip():
            continue
        where = place(path, number)
        row = parse_json(line.encode(), where)
        texts = [_text(row, key, where) for key in ("question", "context", "answer")]
        name = _text(row, "id", where) if "id" in row else str(number)
        answer = Answer(texts[2], _number(row, "start", where))
        yield _checked(Question(name, texts[0], texts[1], (answer,), where))


def _checked(question: Question) -> Question:
    for answer in question.answers:
        start = answer.start
        found = question.context[start : start + len(answer.text)]
        if found != answer.text:
            raise DataError(
                f"question {question.id}: the answer {answer.text[:_SHOWN]!r} is not in its "
                f"context at character {start}, where there is {found[:_SHOWN]!r}",
                question.where,
                "start counts characters from 0, each accent and emoji as one",
            )
    return question


def _list(row: Any, key: str, where: str) -> list[Any]:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, list):
        raise DataError(f"{key!r} is no list", where, "SQuAD's form: data - paragraphs - qas")
    return value


def _text(row: Any, key: str, where: str) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value.strip():
        what = "empty" if isinstance(value, str) else "no text"
        raise DataError(f"{key!r} is {what}", where)
    return value


def _number(row: Any, key: str, where: str) -> int:
    value = row.get(key)
    if type(value) is not int or value < 0:
        raise DataError(f"{key!r} is no number of characters", where)
    return value
