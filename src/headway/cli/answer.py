"""`headway answer`: a question and a text in, the words of the text that answer it out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, Count, MachineFlags
from headway.cli.inputs import Truncated, arguments_or_lines
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import AnswererBundle

_FILES = (".txt", ".md", ".gz")


def answer(
    run: str,
    /,
    *,
    context: str,
    question: str | None = None,
    top: Count = 1,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Answer a question by words of a text.

    A line each: answer and probability, as many as --top asks for, tabs between them.

    Parameters
    ----------
    run
        A run folder or a model folder.
    context
        The text that holds the answer, or a file of it (.txt, .md, plain or .gz).
    question
        What to ask; without it, standard input is read, one question a line.
    top
        So many answers of each question, the likeliest first.
    json
        One JSON object a line, with the characters of the text where the answers stand.
    """
    from headway.bundle import AnswererBundle

    text = _text(context)
    place = machine.prepare()
    bundle = place.load_as(AnswererBundle, run)
    questions = arguments_or_lines(() if question is None else (question,), "question")
    truncated = Truncated(bundle.reader.question_room, "question")
    for number, each in enumerate(questions, start=1):
        with place.precision():
            found = bundle.answer(each, text, top)
        if json:
            answers = [asdict(one) for one in found]
            data_json({"line": number, "question": each, "answers": answers})
        else:
            shown = ((" ".join(one.text.split()), one.probability) for one in found)
            data("\t".join(f"{words}\t{share:.3f}" for words, share in shown))
        truncated.add(bundle.reader.lengths([each]))
    truncated.report()


def _text(context: str) -> str:
    """What stands in the file of that name, or the text itself."""
    from headway.data.formats import read_lines

    path = Path(context)
    named = len(context) < 256 and "\n" not in context and context.strip() != ""
    if named and path.is_file():
        return "\n".join(read_lines(path))
    if named and path.suffix in _FILES and len(context.split()) == 1:
        raise UsageError("no such file", context, "--context FILE, or the text itself in quotes")
    return context


def evaluate_answerer(bundle: AnswererBundle, run: Path, path: Path | None, json: bool) -> None:
    """Exact matches and F1 by SQuAD's rules, on a file or on all questions that were held out."""
    from headway.data.formats.questions import read_questions
    from headway.evaluation import score_answers
    from headway.recipes import saved
    from headway.recipes.answer_config import AnswerDataConfig
    from headway.recipes.answer_data import answered_questions

    config = saved(run) if (run / "run.yaml").is_file() else None
    if path is not None:
        every = list(read_questions([path]))
    elif config is not None and isinstance(config.data, AnswerDataConfig):
        every = answered_questions(config.data)[1]
    else:
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a file of questions"
        )
    asked = [each for each in every if each.answers]
    if not asked:
        raise DataError("there is no question with an answer to evaluate on", str(path))
    if len(asked) < len(every):
        talk.print(f"          ! {len(every) - len(asked):,} questions have no answer: left out")
    truncated = Truncated(bundle.reader.question_room, "question")
    truncated.add(bundle.reader.lengths([each.question for each in asked]))
    with talk.status(f"answering {len(asked):,} questions"):
        found = bundle.answer_all([(each.question, each.context) for each in asked])
    texts = [best[0].text if best else "" for best in found]
    truncated.report()
    scores = score_answers(texts, [[one.text for one in each.answers] for each in asked])
    if json:
        data_json(asdict(scores))
    else:
        data(f"exact {scores.exact:.3f}   F1 {scores.f1:.3f}   {scores.questions:,} questions")
