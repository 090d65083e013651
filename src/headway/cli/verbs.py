"""Commands that predict (`headway VERB RUN [INPUT ...]`), made from the registry of tasks."""

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.text import Text

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, Field, declared, override, setting
from headway.bundle import Bundle, Truncating
from headway.cli import documents
from headway.cli.flags import as_flags, spelled, takes
from headway.cli.inputs import NAME, Truncated, arguments_or_lines, chunks
from headway.cli.machine import MachineFlags
from headway.cli.streams import is_stream_file, named_like
from headway.cli.texts import image_paths
from headway.data.formats.lines import ending, read_lines
from headway.data.rows import ENDINGS as TABLES
from headway.runs.recipes import saved_or_none
from headway.tasks.opening import check_kind, with_article
from headway.tasks.registry import TASKS, Entry, task, verbs
from headway.tasks.task import AnyTask, Styled, Table
from headway.terminal.console import data, data_json, on_output, say
from headway.terminal.progress import progress

TEXT_FILES = (".txt", ".md", ".gz")
TABLE, COLUMN = "file", "data."
"""The flag of a table of inputs, and the prefix of the flags of its columns."""


@as_flags
class VerbFlags(MachineFlags):
    json: bool = setting(False, "Print one JSON object per line.")


LINES = VerbFlags()


def __getattr__(verb: str) -> Callable[..., None]:
    """The command of a verb, by whose name the command line looks it up."""
    if verb not in verbs():
        raise AttributeError(verb)
    return verb_command(verb)


def verb_command(verb: str) -> Callable[..., None]:
    """The command `headway VERB RUN [INPUT ...]` of the tasks whose models predict under that name.

    Its flags are the fields of the tasks' inputs after the first, and their options. The kind of
    the model selects the task; UsageError for a flag that only other tasks have.
    """
    names = verbs()[verb]
    tasks = {kind: task(name) for name in names for kind in TASKS[name].kinds}
    entries = {kind: TASKS[name] for name in names for kind in TASKS[name].kinds}

    def predict(
        run: str,
        /,
        *inputs: str,
        flags: VerbFlags = LINES,
        **settings: Any,
    ) -> None:
        plot: Path | None = settings.pop("plot", None)
        if plot is not None:
            check_new_file(plot)
        output: Path | None = settings.pop(documents.OUTPUT, None)
        documents.check_output(output, inputs)
        loader = flags.prepare()
        bundle = loader.load(run)
        check_kind(bundle, run, *tasks)
        predicting, entry = tasks[bundle.kind], entries[bundle.kind]
        # a value of a user counts although it is Headway's default: a model may have another one
        changed = {name: value for name, value in settings.items() if value is not None}
        reading = predicting.prediction.table
        table = _pop_table(changed) if reading else {}
        writing = predicting.documents
        described = documents.pop_options(writing, changed, output) if writing else {}
        fixed, options = _split(predicting, verb, bundle, changed)
        if writing and output is not None:
            path = named_like(inputs[0], output)
            documents.write_document(
                writing, bundle, run, path, output, described, options, loader, json=flags.json
            )
            return
        examples = _inputs(predicting, entry, bundle, inputs, fixed)
        if reading is not None and table:
            examples = _of_table(reading, bundle, run, table, [*inputs, *fixed])
        if plot is not None:
            examples = iter([_only(examples, predicting, entry)])
        lists = chunks(examples, from_input=not inputs and not table)
        _predict(predicting, entry, bundle, options, lists, loader, json=flags.json, plot=plot)

    summary = "\n\n    ".join(TASKS[name].help.strip() for name in names)
    predict.__name__ = verb
    predict.__doc__ = f"""{summary}

    Parameters
    ----------
    run
        A run folder or a model folder.
    inputs
        {_about_inputs(entries, tasks)}
    """
    return takes(_fields(list(tasks.values())))(predict)


def _predict(
    predicting: AnyTask,
    entry: Entry,
    bundle: Any,
    options: object,
    lists: Iterator[list[object]],
    machine: Machine,
    *,
    json: bool,
    plot: Path | None,
) -> None:
    """Print the prediction of each input.

    lists: batches of inputs. plot: the file to draw the only prediction to, or None.
    """
    number = 0
    truncated = None

    def counted() -> str:
        return f"predicted {number:,} {entry.unit}{'' if number == 1 else 's'}"

    if isinstance(bundle, Truncating):
        truncated = Truncated(bundle.input_limit, entry.unit)
    # on a terminal the results themselves show the progress
    shown = nullcontext(_unseen) if sys.stdout.isatty() else progress(counted)
    with shown as report:
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
            report(0.0)
            if truncated is not None:
                truncated.add(bundle.input_lengths(inputs))
    if truncated is not None:
        truncated.report()


def _unseen(fraction: float) -> None:
    """Show no progress."""


def _only(inputs: Iterator[object], predicting: AnyTask, entry: Entry) -> object:
    """The only input. UsageError if there are several, or if the task has no plot."""
    if predicting.draws is None:
        raise UsageError("--plot is not available for this kind of model", hint="leave out --plot")
    first_two = list(islice(inputs, 2))
    if len(first_two) != 1:
        raise UsageError(f"--plot draws a single prediction: expected exactly one {entry.unit}")
    return first_two[0]


def _draw(
    predicting: AnyTask,
    bundle: Bundle,
    prediction: object,
    options: object,
    path: Path,
    machine: Machine,
) -> None:
    assert predicting.draws is not None
    with machine.precision():
        predicting.draws.draw(bundle, prediction, options, path)
    say(f"drawn     {path}")


def show(line: Styled) -> None:
    """Print a result as one line: with colours on a terminal, plain elsewhere."""
    if sys.stdout.isatty():
        on_output(highlight=False, soft_wrap=True).print(Text.assemble(*line))
    else:
        data("".join(part for part, _ in line))


def _named(prediction: Any) -> dict[str, object]:
    """The fields of a prediction as nested dictionaries, without those that are None."""

    def without_none(fields: list[tuple[str, object]]) -> dict[str, object]:
        return {name: value for name, value in fields if value is not None}

    return asdict(prediction, dict_factory=without_none)


def _about_inputs(entries: Mapping[str, Entry], tasks: Mapping[str, AnyTask]) -> str:
    """The help of the inputs: a sentence for each task."""
    sentences = []
    for kind, predicting in tasks.items():
        first = dataclasses.fields(predicting.prediction.input)[0]
        described = str(first.metadata["help"])
        where = (
            f"{entries[kind].unit} files, or folders of {entries[kind].unit}s"
            if _is_image(predicting)
            else f"if unset, standard input is read, one {entries[kind].unit} per line"
        )
        sentences.append(f"For {with_article(kind)}: {described}; {where}.")
    return " ".join(sentences)


def _is_image(predicting: AnyTask) -> bool:
    """Whether the inputs of the task are image files, not texts."""
    first = dataclasses.fields(predicting.prediction.input)[0]
    return typing.get_type_hints(predicting.prediction.input)[first.name] is Path


def _fields(tasks: Sequence[AnyTask]) -> dict[str, Field]:
    """The flags of these tasks. A flag that several tasks share has one meaning."""
    fields: dict[str, Field] = {}
    for predicting in (kind.prediction for kind in tasks):
        first, *_ = dataclasses.fields(predicting.input)
        own = declared(predicting.input) | declared(predicting.options)
        del own[first.name]
        for name, field in own.items():
            is_optional = len(tasks) > 1 and field.default is dataclasses.MISSING
            fields.setdefault(name, replace(field, default=None) if is_optional else field)
        if predicting.table is not None:
            help = "Table of inputs: .tsv or .csv with a header, .jsonl, .json or .parquet."
            fields.setdefault(TABLE, Field(TABLE, Path | None, None, help, {}))
            for name, field in declared(predicting.table.columns).items():
                fields[COLUMN + name] = field
    if plots := [kind.draws.shown for kind in tasks if kind.draws is not None]:
        help = f"New file (.png, .svg, .pdf) for a plot of one prediction: {'; '.join(plots)}."
        fields["plot"] = Field("plot", Path | None, None, help, {})
    return fields | documents.fields(tasks)


def _split(
    task: AnyTask, verb: str, bundle: Bundle, chosen: Mapping[str, object]
) -> tuple[dict[str, object], object]:
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
                f"{spelled(name)} is not available for this kind of model",
                hint=f"leave out {spelled(name)}",
            )
    fixed = {}
    for field in further:
        if field.name in chosen:
            value, may_be_file = chosen[field.name], field.metadata.get("may_be_file")
            fixed[field.name] = _contents(field.name, str(value)) if may_be_file else value
        elif field.default is dataclasses.MISSING:
            flag = spelled(field.name)
            raise UsageError(
                f"{flag} is missing: headway {verb} needs it", hint=field.metadata["help"]
            )
    changes = {name: value for name, value in chosen.items() if name in of_options}
    return fixed, override(predicting.defaults(bundle), changes, COMMAND_LINE)


def _contents(name: str, value: str) -> str:
    """The contents of the text file of that name, or the text itself."""
    path = Path(value)
    may_be_file = len(value) < 256 and "\n" not in value and value.strip() != ""
    if may_be_file and path.is_file():
        return "\n".join(read_lines(path))
    if may_be_file and path.suffix in TEXT_FILES and len(value.split()) == 1:
        hint = f"check the path of {spelled(name)}, or write the text itself in quotes"
        raise UsageError("no such file", value, hint)
    return value


def _pop_table(chosen: dict[str, object]) -> dict[str, object]:
    """Remove the flags of a table from `chosen`, and return them."""
    names = [name for name in chosen if name == TABLE or name.startswith(COLUMN)]
    return {name: chosen.pop(name) for name in names}


def _of_table(
    reading: Table[Any, Any, Any],
    bundle: Bundle,
    run: str,
    table: Mapping[str, object],
    inputs: Sequence[str],
) -> Iterator[object]:
    """The inputs in a table. inputs: those on the command line, which exclude a table."""
    if TABLE not in table:
        raise UsageError(
            f"{spelled(next(iter(table)))} names a column of a table, and --file is missing",
            hint="name the table with --file",
        )
    if inputs:
        raise UsageError(
            "--file cannot be combined with inputs on the command line",
            hint="leave one of them out",
        )
    path = Path(str(table[TABLE]))
    names = {name.removeprefix(COLUMN): table[name] for name in table if name != TABLE}
    columns = override(reading.columns(), names, COMMAND_LINE)
    return reading.read(bundle, path, saved_or_none(Path(run)), columns)


def _hint_for_file(predicting: AnyTask, text: str) -> str | None:
    """How the task reads a file of that name, if it does so otherwise than as lines of text."""
    if predicting.prediction.table is not None and ending(Path(text)) in TABLES:
        return f"--file {text} reads a table"
    return None if predicting.documents is None else documents.hint_for(predicting.documents, text)


def _inputs(
    predicting: AnyTask,
    entry: Entry,
    bundle: Bundle,
    arguments: Sequence[str],
    fixed: Mapping[str, object],
) -> Iterator[object]:
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
    values: Iterator[object]
    if _is_image(predicting):
        values = iter(image_paths(arguments, entry.unit))
    else:
        values = arguments_or_lines(arguments, entry.unit, partial(_hint_for_file, predicting))
    for value in values:
        yield reading.input(**{first: value}, **fixed)
