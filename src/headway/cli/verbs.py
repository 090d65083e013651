"""The verbs of tasks, made from their entries in the registry: inputs in, predictions out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headway.cli.console import data, data_json, on_output
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.inputs import arguments_or_lines, chunks
from headway.tasks.registry import TASKS, task

if TYPE_CHECKING:
    from headway.tasks.task import Styled


def text_verb(name: str) -> Callable[..., None]:
    """The verb of a task that reads one text at a time: `headway VERB RUN [TEXT ...]`."""
    entry = TASKS[name]

    def predict(
        run: str,
        /,
        *text: str,
        json: bool = False,
        machine: MachineFlags = ON_THIS_MACHINE,
    ) -> None:
        from headway.bundle import check_kind

        place = machine.prepare()
        bundle: Any = place.load(run)
        check_kind(bundle, entry.kind, run)
        line_of = task(name).show_prediction
        number = 0
        for chunk in chunks(arguments_or_lines(text, entry.unit), from_input=not text):
            with place.precision():
                predictions = bundle.predict(chunk)
            for prediction in predictions:
                number += 1
                if json:
                    data_json({"line": number, **asdict(prediction)})
                else:
                    show(line_of(bundle, prediction))

    predict.__doc__ = f"""{entry.help.rstrip()}

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Texts; if there are none, standard input is read line by line.
    json
        One JSON object per line, with character positions and probabilities.
    """
    predict.__name__ = entry.verb
    return predict


def show(line: Styled) -> None:
    """A result as one line: with colours on a terminal, plain in a pipe."""
    if sys.stdout.isatty():
        from rich.text import Text

        on_output(highlight=False, soft_wrap=True).print(Text.assemble(*line))
    else:
        data("".join(part for part, _ in line))
