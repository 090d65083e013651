"""`headway VERB RUN FILE -o NEW`: predicts for the texts of a file and writes a new file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, Field, declared, override
from headway.bundle import Bundle
from headway.cli.flags import spelled
from headway.cli.inputs import is_file
from headway.runs.recipes import saved_or_none
from headway.tasks.task import AnyTask, Documents
from headway.terminal.console import data_json, talk
from headway.terminal.progress import progress

AnyDocuments = Documents[Any, Any, Any, Any]

OUTPUT = "output"
"""The name of the flag -o."""

OUTPUT_HELP = (
    "New file: the only input is then a file, whose texts are replaced (.po, .tmx, .xliff, "
    ".txt, .md, .html, .srt). All else in it stays."
)


def fields(tasks: Sequence[AnyTask]) -> dict[str, Field]:
    """Return -o and the flags that describe a file, if one of the tasks can write files."""
    made: dict[str, Field] = {}
    for task in tasks:
        if task.documents is not None:
            made[OUTPUT] = Field(OUTPUT, Path | None, None, OUTPUT_HELP, {})
            made |= declared(task.documents.settings)
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
    documents: AnyDocuments, chosen: dict[str, object], output: Path | None
) -> Mapping[str, object]:
    """Remove the flags of documents from `chosen` and return them. UsageError without -o."""
    names = sorted(declared(documents.settings))
    options = {name: chosen.pop(name) for name in names if name in chosen}
    if options and output is None:
        flag = spelled(next(iter(options)))
        raise UsageError(
            f"{flag} is an option for a file that is translated with -o, and -o is missing",
            hint=f"add -o FILE, or leave out {flag}",
        )
    return options


def hint_for(documents: AnyDocuments, text: str) -> str | None:
    """How to predict for the texts of a file of that name; None if the task cannot write it."""
    path = Path(text)
    if path.suffix not in documents.suffixes:
        return None
    return f"add -o {path.stem}.new{path.suffix}, or write < {text} for lines of text"


def write_document(
    documents: AnyDocuments,
    bundle: Bundle,
    run: str,
    path: Path,
    output: Path,
    settings: Mapping[str, object],
    options: object,
    machine: Machine,
    *,
    json: bool,
) -> None:
    """Predict for the texts of the file `path`, write the new file `output`, and report."""
    chosen = override(documents.settings(), settings, COMMAND_LINE)
    before = saved_or_none(Path(run))
    with progress(f"writing {output.name}"), machine.precision():
        report = documents.write(bundle, path, output, before, chosen, options)
    if json:
        data_json(asdict(report))
        return
    for line in documents.show(report):
        talk.print(line, markup=False, highlight=False, soft_wrap=True)
