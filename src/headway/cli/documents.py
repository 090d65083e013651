"""`headway VERB RUN FILE -o NEW`: predicts for the texts of a file and writes a new file."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from inspect import Parameter as Argument
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, override
from headway.cli.console import data_json, talk
from headway.cli.inputs import is_file

if TYPE_CHECKING:
    from headway.base.devices import Machine
    from headway.tasks.task import AnyTask, Documents

OUTPUT = "output"
"""The name of the flag -o."""

OUTPUT_HELP = (
    "New file: the only input is then a file, whose texts are replaced (.po, .tmx, .xliff, "
    ".txt, .md, .html, .srt). All else in it stays."
)


def flags(
    tasks: Sequence[AnyTask], flag: Callable[[str, Any, str, Any], Argument]
) -> dict[str, Argument]:
    """Return -o and the flags that describe a file, if one of the tasks can write files.

    flag: makes a flag of its name, type, help and default.
    """
    made: dict[str, Argument] = {}
    for task in tasks:
        if task.documents is not None:
            parameter = Parameter(name=("--output", "-o"), help=OUTPUT_HELP)
            kind = Annotated[Path | None, parameter]
            made[OUTPUT] = Argument(OUTPUT, Argument.KEYWORD_ONLY, default=None, annotation=kind)
            hints = typing.get_type_hints(task.documents.settings)
            for field in dataclasses.fields(task.documents.settings):
                help_ = field.metadata["help"]
                made[field.name] = flag(field.name, hints[field.name], help_, field.default)
    return made


def check_output(output: Path | None, inputs: Sequence[str]) -> None:
    """Check -o before a model is loaded. UsageError for an existing file, or several inputs."""
    if output is None:
        return
    if len(inputs) == 1 and is_file(inputs[0]) and output.exists() and output.samefile(inputs[0]):
        raise UsageError(
            "the output is the input file, but a new file is written",
            f"-o {output}",
            f"choose another name: -o {output.with_suffix(f'.new{output.suffix}')}",
        )
    check_new_file(output)
    if len(inputs) != 1:
        raise UsageError(
            f"-o needs exactly one input, the path of a file, but there are {len(inputs)}",
            hint="call the command once for each file",
        )


def pop_options(
    documents: Documents[Any, Any, Any, Any], chosen: dict[str, Any], output: Path | None
) -> Mapping[str, Any]:
    """Remove the flags of documents from `chosen` and return them. UsageError without -o."""
    fields = {field.name for field in dataclasses.fields(documents.settings)}
    options = {name: chosen.pop(name) for name in sorted(fields) if name in chosen}
    if options and output is None:
        flag = f"--{next(iter(options)).replace('_', '-')}"
        raise UsageError(
            f"{flag} is an option for a file that is translated with -o, and -o is missing",
            hint=f"add -o FILE, or leave out {flag}",
        )
    return options


def hint_for(documents: Documents[Any, Any, Any, Any], text: str) -> str | None:
    """How to predict for the texts of a file of that name; None if the task cannot write it."""
    path = Path(text)
    if path.suffix not in documents.suffixes:
        return None
    return f"add -o {path.stem}.new{path.suffix}, or write < {text} for lines of text"


def write_document(
    documents: Documents[Any, Any, Any, Any],
    bundle: Any,
    run: str,
    path: Path,
    output: Path,
    settings: Mapping[str, Any],
    options: Any,
    machine: Machine,
    *,
    json: bool,
) -> None:
    """Predict for the texts of the file `path`, write the new file `output`, and report."""
    from headway.runs import saved

    folder = Path(run)
    config = saved(folder) if (folder / "run.yaml").is_file() else None
    chosen = override(documents.settings(), settings, COMMAND_LINE)
    with machine.precision():
        report = documents.write(bundle, path, output, config, chosen, options)
    if json:
        data_json(asdict(report))
        return
    for line in documents.show(report):
        talk.print(line, markup=False, highlight=False, soft_wrap=True)
