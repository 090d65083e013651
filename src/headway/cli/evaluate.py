"""`headway eval`: a number that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags, check_number
from headway.errors import UsageError
from headway.files import check_new_file
from headway.settings import COMMAND_LINE

if TYPE_CHECKING:
    from headway.bundle import Bundle
    from headway.runs.evaluation import TaskScores

HELP = """Evaluate a model; what is measured follows from its task.

    The scores are those of the validation while training, computed by the same function. Without a
    path, a run is evaluated on the examples that it held out.

    Parameters
    ----------
    run
        A run folder or a model folder.
    path
        A file or folder of examples with what is right about them, as training reads them.
    confusion
        Of what predicts classes: a plot (.png, .svg, .pdf) of which class was predicted for which.
    json
        One JSON object.
    """


def named_evaluate() -> Callable[..., None]:
    """The command before the tasks are imported: its name and its help."""

    def evaluate() -> None:
        raise AssertionError("`evaluate_command` makes the command that is called")

    evaluate.__doc__ = HELP
    return evaluate


def evaluate_command() -> Callable[..., None]:
    """`headway eval RUN [PATH]`, with the options of the evaluations of all tasks as flags."""
    flags = _flags()

    def evaluate(run: Path, path: Path | None = None, /, **chosen: Any) -> None:
        from headway.runs.evaluation import evaluate_model

        json: bool = chosen.pop("json", False)
        machine: MachineFlags = chosen.pop("machine", ON_THIS_MACHINE)
        plot: Path | None = chosen.pop("confusion", None)
        if plot is not None:
            check_new_file(plot)
        options = {name: value for name, value in chosen.items() if value is not None}
        place = machine.prepare()
        bundle = place.load(run)
        paths = None if path is None else [path]
        with place.precision(), talk.status("reading the examples") as status:
            evaluated = evaluate_model(
                bundle,
                run,
                paths,
                options,
                where=COMMAND_LINE,
                announce=lambda count: status.update(f"evaluating on {count:,} examples"),
            )
        if json:
            data_json(evaluated.scores.as_dict())
        else:
            for line in evaluated.task.show_scores(evaluated.scores):
                data(line)
        if plot is not None:
            _draw_confusion(plot, evaluated, bundle)

    parameters = [
        Argument("run", Argument.POSITIONAL_ONLY, annotation=Path),
        Argument("path", Argument.POSITIONAL_ONLY, default=None, annotation=Path | None),
        *flags,
        Argument("confusion", Argument.KEYWORD_ONLY, default=None, annotation=Path | None),
        Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=bool),
        Argument(
            "machine", Argument.KEYWORD_ONLY, default=ON_THIS_MACHINE, annotation=MachineFlags
        ),
    ]
    # cyclopts reads both
    evaluate.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    evaluate.__annotations__ = {each.name: each.annotation for each in parameters}
    evaluate.__doc__ = HELP
    return evaluate


def _flags() -> list[Argument]:
    """The options of all evaluations, each once; unset, a task's own default holds."""
    from headway.settings import fields_of
    from headway.tasks.registry import task, tasks

    helps: dict[str, dict[str, list[str]]] = {}
    types: dict[str, Any] = {}
    for name in tasks():
        for key, field in fields_of(task(name).evaluation()).items():
            types[key] = types[key] | field.type if key in types else field.type | None
            owners = helps.setdefault(key, {}).setdefault(field.help.rstrip("."), [])
            owners.append(name.replace("_", " "))
    return [
        Argument(
            key,
            Argument.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                types[key],
                Parameter(
                    validator=check_number,
                    help="; ".join(f"{', '.join(own)}: {text}" for text, own in of_tasks.items()),
                ),
            ],
        )
        for key, of_tasks in helps.items()
    ]


def _draw_confusion(path: Path, evaluated: TaskScores, bundle: Bundle) -> None:
    """The confusion matrix of the scores, as a plot. UsageError if they have none."""
    from headway.inspection.plots import confusion_matrix

    scores = evaluated.scores
    if scores.confusion is None:
        raise UsageError(
            f"--confusion: the evaluation of a {bundle.kind} has no confusion matrix",
            hint="that of a classifier has one",
        )
    metric = scores.metrics[0]
    title = f"{evaluated.examples:,} examples, {metric.name.replace('_', ' ')} {metric.value:.3f}"
    confusion_matrix(path, scores.confusion.counts, scores.confusion.labels, title=title)
    talk.print(f"drawn     {path}", markup=False)
