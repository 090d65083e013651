"""Commands that predict (`headway VERB RUN [INPUT ...]`), made from the registry of tasks."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from inspect import Parameter as Argument
from inspect import Signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, override
from headway.cli import documents
from headway.cli.console import data, data_json, on_output, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags, check_number
from headway.cli.image_files import image_paths
from headway.cli.inputs import NAME, Truncated, arguments_or_lines, chunks
from headway.cli.streams import is_stream_file, named_like
from headway.tasks.registry import TASKS, Entry, task, verbs

if TYPE_CHECKING:
    from headway.base.devices import Machine
    from headway.tasks.task import AnyTask, Styled, Table

TEXT_FILES = (".txt", ".md", ".gz")
TABLE, COLUMN = "file", "data_"
"""The flag of a table of inputs, and the prefix of the names of the flags of its columns."""


def named_verb(verb: str) -> Callable[..., None]:
    """A placeholder of the command with its name and help, before its tasks are imported."""

    def predict() -> None:
        raise AssertionError("this placeholder must be replaced by `verb_command`")

    predict.__doc__ = _help(verb)
    predict.__name__ = verb
    return predict


def verb_command(verb: str) -> Callable[..., None]:
    """The command `headway VERB RUN [INPUT ...]` of the tasks whose models predict under that name.

    Its flags are the fields of the tasks' inputs after the first, and their options. The kind of
    the model selects the task; UsageError for a flag that only other tasks have.
    """
    from headway.tasks.opening import check_kind

    names = verbs()[verb]
    tasks = {TASKS[name].kind: task(name) for name in names}
    entries = {TASKS[name].kind: TASKS[name] for name in names}
    kinds = list(tasks.values())
    flags = _flags(kinds) | _plot_flag(kinds) | documents.flags(kinds, _flag)

    def predict(run: str, /, *inputs: str, **chosen: Any) -> None:
        json: bool = chosen.pop("json", False)
        machine: MachineFlags = chosen.pop("machine", ON_THIS_MACHINE)
        plot: Path | None = chosen.pop("plot", None)
        if plot is not None:
            check_new_file(plot)
        output: Path | None = chosen.pop(documents.OUTPUT, None)
        documents.check_output(output, inputs)
        loader = machine.prepare()
        bundle = loader.load(run)
        check_kind(bundle, run, *tasks)
        predicting, entry = tasks[bundle.kind], entries[bundle.kind]
        # a value of a user counts although it is Headway's default: a model may have another one
        changed = {name: value for name, value in chosen.items() if value is not None}
        reading = predicting.prediction.table
        table = _pop_table(changed) if reading else {}
        writing = predicting.documents
        described = documents.pop_options(writing, changed, output) if writing else {}
        fixed, options = _split(predicting, verb, bundle, changed)
        if writing and output is not None:
            path = named_like(inputs[0], output)
            documents.write_document(
                writing, bundle, run, path, output, described, options, loader, json=json
            )
            return
        examples = _inputs(predicting, entry, bundle, inputs, fixed)
        if reading is not None and table:
            examples = _of_table(reading, bundle, run, table, [*inputs, *fixed])
        if plot is not None:
            examples = iter([_only(examples, predicting, entry)])
        lists = chunks(examples, from_input=not inputs and not table)
        _predict(predicting, entry, bundle, options, lists, loader, json=json, plot=plot)

    _declare(predict, verb, flags, _about_inputs(entries, tasks))
    return predict


def _declare(
    predict: Callable[..., None], verb: str, flags: Mapping[str, Argument], about_inputs: str
) -> None:
    """Set the parameters and the help of the command of a verb."""
    parameters = [
        Argument("run", Argument.POSITIONAL_ONLY, annotation=str),
        Argument("inputs", Argument.VAR_POSITIONAL, annotation=str),
        *flags.values(),
        Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=bool),
        Argument(
            "machine", Argument.KEYWORD_ONLY, default=ON_THIS_MACHINE, annotation=MachineFlags
        ),
    ]
    # cyclopts reads both
    predict.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    predict.__annotations__ = {argument.name: argument.annotation for argument in parameters}
    predict.__doc__ = f"""{_help(verb)}

    Parameters
    ----------
    run
        A run folder or a model folder.
    inputs
        {about_inputs}
    json
        Print one JSON object per line.
    """
    predict.__name__ = verb


def _predict(
    predicting: AnyTask,
    entry: Entry,
    bundle: Any,
    options: Any,
    lists: Iterator[list[Any]],
    machine: Machine,
    *,
    json: bool,
    plot: Path | None,
) -> None:
    """Print the prediction of each input.

    lists: batches of inputs. plot: the file to draw the only prediction to, or None.
    """
    from headway.bundle import Truncating

    number = 0
    truncated = None
    if isinstance(bundle, Truncating):
        truncated = Truncated(bundle.input_limit, entry.unit)
    for inputs in lists:
        with machine.precision():
            predictions = bundle.predict(inputs, options, first=number + 1)
        for prediction in predictions:
            number += 1
            if plot is not None:
                _draw(predicting, bundle, prediction, options, plot, machine)
            if json:
                data_json({"line": number, **_named(prediction)})
            else:
                for line in predicting.prediction.show(bundle, prediction, options):
                    show(line)
        if truncated is not None:
            truncated.add(bundle.input_lengths(inputs))
    if truncated is not None:
        truncated.report()


def _only(inputs: Iterator[Any], predicting: AnyTask, entry: Entry) -> Any:
    """The only input. UsageError if there are several, or if the task has no plot."""
    if predicting.draws is None:
        raise UsageError("--plot is not available for this kind of model", hint="leave out --plot")
    first_two = list(islice(inputs, 2))
    if len(first_two) != 1:
        raise UsageError(f"--plot draws a single prediction: expected exactly one {entry.unit}")
    return first_two[0]


def _draw(
    predicting: AnyTask, bundle: Any, prediction: Any, options: Any, path: Path, machine: Machine
) -> None:
    assert predicting.draws is not None
    with machine.precision():
        predicting.draws.draw(bundle, prediction, options, path)
    talk.print(f"drawn     {path}", markup=False)


def show(line: Styled) -> None:
    """Print a result as one line: with colours on a terminal, plain elsewhere."""
    if sys.stdout.isatty():
        from rich.text import Text

        on_output(highlight=False, soft_wrap=True).print(Text.assemble(*line))
    else:
        data("".join(part for part, _ in line))


def _named(prediction: Any) -> dict[str, Any]:
    """The fields of a prediction as nested dictionaries, without those that are None."""

    def without_none(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in fields if value is not None}

    return asdict(prediction, dict_factory=without_none)


def _help(verb: str) -> str:
    return "\n\n    ".join(TASKS[name].help.strip() for name in verbs()[verb])


def _about_inputs(entries: Mapping[str, Entry], tasks: Mapping[str, AnyTask]) -> str:
    """The help of the inputs: a sentence for each task."""
    from headway.tasks.opening import with_article

    sentences = []
    for kind, predicting in tasks.items():
        first = dataclasses.fields(predicting.prediction.input)[0]
        described = str(first.metadata["help"])
        where = (
            "image files, or folders of images"
            if _is_image(predicting)
            else f"if unset, standard input is read, one {entries[kind].unit} per line"
        )
        sentences.append(f"For {with_article(kind)}: {described}; {where}.")
    return " ".join(sentences)


def _is_image(predicting: AnyTask) -> bool:
    """Whether the inputs of the task are image files, not texts."""
    first = dataclasses.fields(predicting.prediction.input)[0]
    return typing.get_type_hints(predicting.prediction.input)[first.name] is Path


def _flags(tasks: Sequence[AnyTask]) -> dict[str, Argument]:
    """The flags of these tasks. A flag that several tasks share has one meaning."""
    flags: dict[str, Argument] = {}
    for predicting in (kind.prediction for kind in tasks):
        _, *further = dataclasses.fields(predicting.input)
        for owner, fields in (
            (predicting.input, further),
            (predicting.options, dataclasses.fields(predicting.options)),
        ):
            hints = typing.get_type_hints(owner)
            for field in fields:
                default: Any = field.default
                if default is dataclasses.MISSING:
                    default = Argument.empty if len(tasks) == 1 else None
                flag = _flag(field.name, hints[field.name], field.metadata["help"], default)
                flags.setdefault(field.name, flag)
        if predicting.table is not None:
            help_ = "Table of inputs: .tsv or .csv with a header, .jsonl, .json or .parquet."
            flags.setdefault(TABLE, _flag(TABLE, Path | None, help_, None))
            hints = typing.get_type_hints(predicting.table.columns)
            for field in dataclasses.fields(predicting.table.columns):
                name = COLUMN + field.name
                flags[name] = _flag(name, hints[field.name], field.metadata["help"], field.default)
    return flags


def _plot_flag(tasks: Sequence[AnyTask]) -> dict[str, Argument]:
    """The flag --plot, if one of the tasks can draw its predictions."""
    plots = [task.draws.shown for task in tasks if task.draws is not None]
    if not plots:
        return {}
    help_ = f"New file (.png, .svg, .pdf) for a plot of one prediction: {'; '.join(plots)}."
    return {"plot": _flag("plot", Path | None, help_, None)}


def _flag(name: str, kind: Any, help: str, default: Any) -> Argument:
    parameter = Parameter(name=_spelled(name), help=help, validator=check_number)
    annotation = Annotated[kind, parameter]
    return Argument(name, Argument.KEYWORD_ONLY, default=default, annotation=annotation)


def _spelled(name: str) -> str:
    """The name of a flag on the command line: --top, --data.text."""
    if name.startswith(COLUMN):
        name = f"data.{name.removeprefix(COLUMN)}"
    return f"--{name.replace('_', '-')}"


def _split(task: AnyTask, verb: str, bundle: Any, chosen: Mapping[str, Any]) -> tuple[Any, Any]:
    """The fields of every input after the first, and the options, completed by the model's.

    UsageError for a flag that this task does not have, or for a required flag that is missing.
    """
    predicting = task.prediction
    _, *further = dataclasses.fields(predicting.input)
    of_input = {field.name for field in further}
    of_options = {field.name for field in dataclasses.fields(predicting.options)}
    for name in chosen:
        if name not in of_input | of_options:
            raise UsageError(
                f"{_spelled(name)} is not available for this kind of model",
                hint=f"leave out {_spelled(name)}",
            )
    fixed = {}
    for field in further:
        if field.name in chosen:
            value, may_be_file = chosen[field.name], field.metadata.get("may_be_file")
            fixed[field.name] = _contents(field.name, value) if may_be_file else value
        elif field.default is dataclasses.MISSING:
            flag = _spelled(field.name)
            raise UsageError(
                f"{flag} is missing: headway {verb} needs it", hint=field.metadata["help"]
            )
    changes = {name: value for name, value in chosen.items() if name in of_options}
    return fixed, override(predicting.defaults(bundle), changes, COMMAND_LINE)


def _contents(name: str, value: str) -> str:
    """The contents of the text file of that name, or the text itself."""
    from headway.data.formats import read_lines

    path = Path(value)
    may_be_file = len(value) < 256 and "\n" not in value and value.strip() != ""
    if may_be_file and path.is_file():
        return "\n".join(read_lines(path))
    if may_be_file and path.suffix in TEXT_FILES and len(value.split()) == 1:
        hint = f"check the path of {_spelled(name)}, or write the text itself in quotes"
        raise UsageError("no such file", value, hint)
    return value


def _pop_table(chosen: dict[str, Any]) -> dict[str, Any]:
    """Remove the flags of a table from `chosen`, and return them."""
    names = [name for name in chosen if name == TABLE or name.startswith(COLUMN)]
    return {name: chosen.pop(name) for name in names}


def _of_table(
    reading: Table[Any, Any, Any],
    bundle: Any,
    run: str,
    table: Mapping[str, Any],
    inputs: Sequence[str],
) -> Iterator[Any]:
    """The inputs in a table. inputs: those on the command line, which exclude a table."""
    from headway.runs import saved

    if TABLE not in table:
        raise UsageError(
            f"{_spelled(next(iter(table)))} names a column of a table, and --file is missing",
            hint="name the table with --file",
        )
    if inputs:
        raise UsageError(
            "--file cannot be combined with inputs on the command line",
            hint="leave one of them out",
        )
    folder, path = Path(run), table[TABLE]
    config = saved(folder) if (folder / "run.yaml").is_file() else None
    names = {name.removeprefix(COLUMN): table[name] for name in table if name != TABLE}
    columns = override(reading.columns(), names, COMMAND_LINE)
    return reading.read(bundle, path, config, columns)


def _hint_for_file(predicting: AnyTask, text: str) -> str | None:
    """How the task reads a file of that name, if it does so otherwise than as lines of text."""
    from headway.data.formats import TABLES, ending

    if predicting.prediction.table is not None and ending(Path(text)) in TABLES:
        return f"--file {text} reads a table"
    return None if predicting.documents is None else documents.hint_for(predicting.documents, text)


def _inputs(
    predicting: AnyTask,
    entry: Entry,
    bundle: Any,
    arguments: Sequence[str],
    fixed: Mapping[str, Any],
) -> Iterator[Any]:
    """Yield the inputs: texts of the command line or of standard input, or images.

    fixed: the values of the other fields, the same for all inputs.
    """
    reading = predicting.prediction
    has_lines = not arguments or all(map(is_stream_file, arguments))
    if reading.read_line is not None and has_lines and not fixed:
        lines = arguments_or_lines(arguments, entry.unit)
        for number, line in enumerate(lines, start=1):
            yield reading.read_line(bundle, line, f"{NAME}, line {number}")
        return
    first = dataclasses.fields(reading.input)[0].name
    values: Iterator[Any]
    if _is_image(predicting):
        values = iter(image_paths(arguments))
    else:
        values = arguments_or_lines(arguments, entry.unit, partial(_hint_for_file, predicting))
    for value in values:
        yield reading.input(**{first: value}, **fixed)
