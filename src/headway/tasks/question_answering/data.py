"""Questions: reads, checks, splits and encodes them as windows, and writes their fingerprint."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headway.base.errors import DataError
from headway.data.bad_rows import BadRows
from headway.data.formats.records import ENDINGS
from headway.tasks.finetuning import ExampleFiles, PreparedExamples, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.question_answering.config import AnswerDataConfig
from headway.tasks.question_answering.model import AnswerReader
from headway.tasks.question_answering.question_files import (
    QUESTIONS,
    Answer,
    Question,
    read_questions,
)
from headway.tasks.question_answering.windows import AnswerTexts, Window, covered

FILE = "texts.json"
FILES = ExampleFiles(
    examples="questions",
    kinds="SQuAD's .json, .jsonl or .parquet",
    endings=ENDINGS,
    content=QUESTIONS,
    trains="a question-answering model",
)

PreparedQuestions = PreparedExamples[AnswerReader, AnswerTexts, Question]


def answered_questions(
    data: AnswerDataConfig, emit: Emit = lambda event: None
) -> tuple[list[Question], list[Question]]:
    """Read the training questions and the validation questions.

    The validation questions are data.valid if set, else those of a held-out fraction of the
    contexts of data.train. The context decides, so that all its questions are in the same split.
    Raises DataError if a split is empty, or for a question without an answer unless
    data.skip_impossible is set.
    """
    bad_rows = BadRows.of(data.bad_rows)
    questions, valid = FILES.read(
        data, lambda files: _answered(files, data.skip_impossible, bad_rows)
    )
    bad_rows.announce(emit)
    return FILES.split(data, questions, valid, lambda question: question.context, emit=emit)


def _answered(paths: Sequence[Path], skip: bool, bad_rows: BadRows) -> list[Question]:
    answered = []
    for question in read_questions(paths, bad_rows):
        if question.answers:
            answered.append(question)
        elif not skip:
            raise DataError(
                f"question {question.id} has no answer in its context, and every training question "
                "needs one",
                question.where,
                "--data.skip-impossible true leaves such questions out",
            )
    if not answered:
        raise DataError("there is no question with an answer", ", ".join(map(str, paths)))
    return answered


def prepare_answers(
    data: AnswerDataConfig, reader: AnswerReader, typed: bool, folder: Path, emit: Emit
) -> PreparedQuestions:
    """Read and encode the questions.

    typed: whether the model has two token types.
    """
    train, valid = answered_questions(data, emit)
    encoded = _encoded(train, reader, typed)
    room = reader.max_question_length
    lengths = reader.lengths([question.question for question in train])
    longer = sum(length > room for length in lengths)
    if longer:
        text = f"{longer:,} questions of train have more than {room} tokens and are truncated"
        emit({"kind": "note", "text": text})
    train_content = [list(window.ids) for window in encoded.windows], encoded.targets
    valid_content = [
        [question.question, question.context, [answer.text for answer in question.answers]]
        for question in valid
    ]
    check_unchanged(folder / FILE, reader.fingerprint, [train_content, valid_content])
    for name, side in (("train", train), ("valid", valid)):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "questions"})
    without = sum(target == (0, 0) for target in encoded.targets)
    text = f"{len(encoded.windows):,} training windows of at most {reader.window} tokens, "
    emit({"kind": "note", "text": text + f"{without:,} of them without the answer"})
    return PreparedQuestions(reader, encoded, valid)


def target_answer(question: Question) -> Answer:
    """Return the most frequent of the annotated answers; in a tie, the first."""
    return Counter(question.answers).most_common(1)[0][0]


def _encoded(questions: list[Question], reader: AnswerReader, typed: bool) -> AnswerTexts:
    windows: list[Window] = []
    targets: list[tuple[int, int]] = []
    for question in questions:
        encoded = reader.encode(question.question, question.context)
        answer = target_answer(question)
        span = covered(encoded.spans, answer.start, answer.start + len(answer.text))
        if span is None:
            raise DataError(
                f"question {question.id}: the answer {answer.text!r} has no tokens",
                question.where,
            )
        windows += encoded.windows
        targets += [window.place(span) for window in encoded.windows]
    return AnswerTexts(windows, targets, typed)
