"""Which tasks there are: names, verbs and one line of help, known without importing torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayWarning, UsageError
from headway.extensions import Extended

if TYPE_CHECKING:
    from headway.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task before it is imported.

    path: "module:name" of its `Task`. kind: of its bundles; "" if it makes those of other tasks.
    families: of the models that it opens, as their config.json names them. verb: the command that
    predicts, made of the task's `input` and `options`; None if a command of its own uses the
    models. unit: what one input is called. help: of the verb; its first line is shown by `headway
    --help`.
    """

    path: str
    kind: str
    families: tuple[str, ...] = ()
    verb: str | None = None
    unit: str = "text"
    help: str = ""


OWN: dict[str, Entry] = {
    "translation": Entry(
        path="headway.tasks.translation:TASK",
        kind="translator",
        families=("translator",),
        verb="translate",
        unit="sentence",
        help="""Translate sentences.

    Reads the arguments, or one sentence per line from standard input. Prints one line per sentence;
    with --nbest, one line per translation.
    """,
    ),
    "tagging": Entry(
        path="headway.tasks.tagging:TASK",
        kind="tagger",
        families=("bert-tagger",),
        verb="tag",
        help="""Tag the words of texts: named entities, slots or parts of speech.

    Reads the arguments, or one text per line from standard input. Prints one line per text:
    [person Ada] met [person Charles]. If the tags mark no spans, every word with its tag:
    rain/NOUN falls/VERB.
    """,
    ),
    "language_modeling": Entry(
        path="headway.tasks.language_modeling:TASK", kind="language model", families=("gpt",)
    ),
    "word_vectors": Entry(
        path="headway.tasks.word_vectors:TASK", kind="word model", families=("words",)
    ),
    "classification": Entry(
        path="headway.tasks.classification:TASK",
        kind="classifier",
        families=("gpt-classifier", "bert-classifier"),
        verb="classify",
        help="""Classify texts, pairs of texts, images or sounds.

    Prints one line per input: label and probability, as many as --top requests, with tabs between
    them; or the number, of a model of numbers. Of a model of pairs, a line of standard input is two
    texts with a tab between them, and --second is the second text of every argument.
    """,
    ),
    "question_answering": Entry(
        path="headway.tasks.question_answering:TASK",
        kind="question answerer",
        families=("bert-answerer",),
        verb="answer",
        unit="question",
        help="""Answer questions by words of a text.

    Reads the arguments, or one question per line from standard input. Prints one line per question:
    answer and probability, as many as --top requests, with tabs between them.
    """,
    ),
    "masked_language_modeling": Entry(
        path="headway.tasks.masked_language_modeling:TASK",
        kind="text encoder",
        families=("bert",),
        verb="fill",
        help="""Predict masked words: headway fill RUN "Paris is the [MASK] of France."

    Reads the arguments, or one text per line from standard input. A text may have several [MASK],
    each of which is predicted by itself. ## begins a prediction that continues the word before it.
    """,
    ),
    "sentence_embedding": Entry(
        path="headway.tasks.sentence_embedding:TASK",
        kind="text encoder",
    ),
    "distillation": Entry(path="headway.tasks.distillation:TASK", kind=""),
    "image_classification": Entry(
        path="headway.tasks.image_classification:TASK",
        kind="image classifier",
        families=("vit-classifier",),
        verb="classify",
        unit="image",
        help="Lines of images begin with the file.",
    ),
    "self_distillation": Entry(
        path="headway.tasks.self_distillation:TASK", kind="image encoder", families=("vit",)
    ),
    "captioning": Entry(
        path="headway.tasks.captioning:TASK",
        kind="captioner",
        families=("captioner",),
        verb="caption",
        unit="image",
        help="""Write captions of images.

    Prints one line per image: its file, a tab, the caption. headway caption RUN a.png folder/
    --language fr
    """,
    ),
}

TASKS: Extended[Entry] = Extended(OWN, "headway.tasks")
"""Name -> task: Headway's, and those of installed packages."""


@cache
def _entries() -> dict[str, Entry]:
    """All tasks. One whose package cannot be imported is left out with a warning."""
    entries = {}
    for name in TASKS:
        try:
            entries[name] = TASKS[name]
        except UsageError as error:
            warnings.warn(str(error), HeadwayWarning, stacklevel=2)
    return entries


def forget() -> None:
    """Look for tasks again: a process that installs a package while it runs needs it."""
    TASKS.forget()
    _entries.cache_clear()
    task.cache_clear()


@cache
def task(name: str) -> Task:
    """The task of that name, imported."""
    module, _, attribute = TASKS[name].path.partition(":")
    try:
        loaded: Task = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        package = TASKS.package(name)
        if package is None:
            raise
        raise UsageError(
            f"the task {name} cannot be imported: {error}", package, f"pip install {package}"
        ) from error
    return loaded


def tasks_of_kind(kind: str) -> list[Task]:
    """The tasks that evaluate bundles of that kind."""
    return [task(name) for name, entry in _entries().items() if entry.kind == kind]


def evaluating_task(kind: str, path: Path | None, config: object) -> Task | None:
    """The task that evaluates a bundle of that kind on a file, or on what its run held out.

    config: of the run; None for a model without a run. None if there is no such task.
    """
    from headway.tasks.task import Selective

    for task in tasks_of_kind(kind):
        if not isinstance(task, Selective):
            return task
        if type(config) is task.config if path is None else task.reads(path):
            return task
    return None


def task_of_config(config: object) -> Task:
    """The task whose runs are configured so. UsageError if there is none."""
    for name in _entries():
        if type(config) is task(name).config:
            return task(name)
    raise UsageError(f"no task has runs that are configured by a {type(config).__name__}")


def task_of_family(family: object) -> Task | None:
    """The task that opens models of that family, as config.json names it."""
    names = [name for name, entry in _entries().items() if family in entry.families]
    return task(names[0]) if names else None


def verbs() -> dict[str, list[str]]:
    """Verb -> the names of the tasks whose bundles predict under it."""
    names: dict[str, list[str]] = {}
    for name, entry in _entries().items():
        if entry.verb is not None:
            names.setdefault(entry.verb, []).append(name)
    return names


def tasks() -> dict[str, Sequence[str]]:
    """Name of a task -> the recipes that train its models."""
    return {name: list(task(name).recipes) for name in _entries()}
