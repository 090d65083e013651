"""Which tasks there are: names, verbs and one line of help, known without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task before it is imported.

    path: "module:name" of its `Task`. kind: of its bundles. verb: the command that predicts. unit:
    what one input is called. help: of the verb.
    """

    path: str
    kind: str
    verb: str
    unit: str
    help: str


TASKS: dict[str, Entry] = {
    "tagging": Entry(
        path="headway.tasks.tagging:TASK",
        kind="tagger",
        verb="tag",
        unit="text",
        help="""Tag the words of texts: named entities, slots or parts of speech.

    Reads the arguments, or one text per line from standard input. Prints one line per text:
    [person Ada] met [person Charles]. If the tags mark no spans, every word with its tag:
    rain/NOUN falls/VERB.
    """,
    ),
}
"""Name -> task. The tasks that are not here yet are recipes (`headway.recipes`)."""


@cache
def task(name: str) -> Task:
    """The task of that name, imported."""
    module, _, attribute = TASKS[name].path.partition(":")
    found: Task = getattr(import_module(module), attribute)
    return found


def task_of_kind(kind: str) -> Task | None:
    """The task whose bundles are of that kind, if it is registered."""
    names = [name for name, entry in TASKS.items() if entry.kind == kind]
    return task(names[0]) if names else None
