"""Reads questions, each with a context that contains its answer (extractive question answering):
SQuAD's .json, and records (.jsonl, .json, .parquet), plain or .gz.

Rajpurkar et al. 2016.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import DataError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.lines import check_file
from headway.data.formats.records import ENDINGS
from headway.data.rows import Row, plain_text, read_rows

QUESTIONS = "questions"
_SHOWN = 60
_PARAGRAPHS = "paragraphs"  # of an article of SQuAD
_TEXTS, _STARTS = "answers.text", "answers.answer_start"  # columns of flattened records


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
    question's id or its line. title: that of the article, if the file has it.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    where: str
    title: str = ""


def read_questions(paths: Sequence[Path], bad_rows: BadRows = NONE_LEFT_OUT) -> Iterator[Question]:
    """Yield the questions of files in order.

    A record (`read_rows`) is an article of SQuAD 1.1 or 2.0, which has paragraphs with qas, or a
    question: it has question and context, optionally id, and either answer and start (the character
    index of the answer), or answers with the lists text and answer_start, as on the Hugging Face
    hub; they are empty if the context does not contain an answer. bad_rows: the policy for
    questions that are invalid.

    Raises UsageError for a missing file or an unknown suffix; DataError with file and question for
    another structure, an empty text, or an answer that is not in the context at its start.
    """
    for path in paths:
        check_questions(path)
        for row in read_rows(path, {}, bad_rows):
            if _PARAGRAPHS in row.values:
                yield from bad_rows.parsed(_squad(row), _of_squad)
            else:
                yield from bad_rows.parsed((row,), _of_record)


def check_questions(path: Path) -> None:
    """Raise UsageError unless the file exists and has one of the suffixes `ENDINGS`."""
    check_file(path, ENDINGS, QUESTIONS)


@dataclass(frozen=True)
class _SquadRow:
    """A question of a SQuAD file, as it is there. where: its place in the file."""

    path: Path
    context: str
    row: Any
    where: str
    title: str


def _squad(article: Row) -> Iterator[_SquadRow]:
    where = f"{article.path}, article {article.line}"
    title = plain_text(article.values.get("title")) or ""
    for j, paragraph in enumerate(_list(article.values, _PARAGRAPHS, where)):
        inside = f"{where}, paragraph {j + 1}"
        context = _text(paragraph, "context", inside)
        for k, row in enumerate(_list(paragraph, "qas", inside)):
            yield _SquadRow(article.path, context, row, f"{inside}, question {k + 1}", title)


def _of_squad(squad_row: _SquadRow) -> Question:
    row, context = squad_row.row, squad_row.context
    question_id = _text(row, "id", squad_row.where)
    where = f"{squad_row.path}, question {question_id}"
    text = _text(row, "question", where)
    if row.get("is_impossible") is True:
        return Question(question_id, text, context, (), where, squad_row.title)
    answers = list(_in_lists(row.get("answers"), where))
    if not answers:
        raise DataError(
            "the question has no answer",
            where,
            'add one, or label the question as unanswerable: "is_impossible": true',
        )
    return _checked(Question(question_id, text, context, tuple(answers), where, squad_row.title))


def _of_record(row: Row) -> Question:
    values, where = row.values, row.where
    text, context = (_text(values, key, where) for key in ("question", "context"))
    question_id = plain_text(values.get("id")) or str(row.line)
    title = plain_text(values.get("title")) or ""
    return _checked(Question(question_id, text, context, tuple(_answers(row)), where, title))


def _answers(row: Row) -> Iterator[Answer]:
    """Yield the answers of a record, in one of the forms of `read_questions`."""
    values, where = row.values, row.where
    if values.get("is_impossible") is True:
        return
    if "answers" not in values and _TEXTS not in values:
        if "answer" not in values:
            raise row.fault("answers", "an object with the lists text and answer_start")
        yield Answer(_text(values, "answer", where), _number(values, "start", where))
        return
    flat = {"text": values.get(_TEXTS), "answer_start": values.get(_STARTS)}
    yield from _in_lists(values.get("answers", flat), where)


def _in_lists(value: object, where: str) -> Iterator[Answer]:
    """Yield the answers of a list of objects, or of an object of lists."""
    if isinstance(value, list):  # [{"text": ..., "answer_start": ...}, ...]
        for answer in value:
            yield Answer(_text(answer, "text", where), _number(answer, "answer_start", where))
        return
    lists = value if isinstance(value, dict) else {}
    texts, starts = (
        [item] if isinstance(item, str | int) else item
        for item in (lists.get("text"), lists.get("answer_start"))
    )
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise DataError(
            "'answers' must have the lists 'text' and 'answer_start' of one length, but is "
            f"{str(value)[:_SHOWN]}",
            where,
            'write "answers": {"text": ["Ada"], "answer_start": [0]}; empty lists if there is no '
            "answer",
        )
    for text, start in zip(texts, starts, strict=True):
        answer = {"text": text, "answer_start": start}
        yield Answer(_text(answer, "text", where), _number(answer, "answer_start", where))


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
