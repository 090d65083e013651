"""`headway eval`: the evaluation of a model by its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, plain
from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags, check_number

if TYPE_CHECKING:
    from headway.base.settings import Field
    from headway.bundle import Bundle
    from headway.evaluation import PairedDifference
    from headway.runs.evaluation import ModelScores

COLUMN = "data_"
"""Prefix of the arguments of the flags that name columns or keys of examples."""
COLUMNS = ("text", "second", "label", "first", "score", "column", "key", "split", "image")
"""Settings of the data of tasks that say how a file of examples is read."""

HELP = """Evaluate a model with the metrics of its task.

    The metrics are computed as in the evaluations during training. Without a path, a run is
    evaluated on its held-out data.

    Parameters
    ----------
    run
        A run folder or a model folder.
    path
        A file or folder of examples with their references or labels, in a format of training.
    against
        Another run or model, evaluated on the same examples: those of the file, or the held-out
        data of the first run. A paired bootstrap says whether the difference is more than chance.
    confusion
        New file (.png, .svg, .pdf) for a plot of the confusion matrix of a classifier.
    json
        Print one JSON object.
    """


def named_evaluate() -> Callable[..., None]:
    """A placeholder of the command with its name and help, before the tasks are imported."""

    def evaluate() -> None:
        raise AssertionError("this placeholder must be replaced by `evaluate_command`")

    evaluate.__doc__ = HELP
    return evaluate


def evaluate_command() -> Callable[..., None]:
    """The command `headway eval RUN [PATH]`, with the evaluation options of all tasks as flags."""

    def evaluate(run: Path, path: Path | None = None, /, **chosen: Any) -> None:
        from headway.runs.evaluation import evaluate_model
        from headway.tasks.opening import with_article

        json: bool = chosen.pop("json", False)
        machine: MachineFlags = chosen.pop("machine", ON_THIS_MACHINE)
        plot: Path | None = chosen.pop("confusion", None)
        other: Path | None = chosen.pop("against", None)
        if plot is not None:
            check_new_file(plot)
        options = _options(chosen)
        loader = machine.prepare()
        paths = None if path is None else [path]
        bundle = loader.load(run)
        second = None if other is None else loader.load(other)
        if second is not None and second.kind != bundle.kind:
            raise UsageError(
                f"{run} holds {with_article(bundle.kind)}, {other} {with_article(second.kind)}",
                f"--against {other}",
                "compare models of one kind",
            )

        def scores_of(folder: Path, bundle: Bundle) -> ModelScores:
            with loader.precision(), talk.status("reading the examples") as status:
                return evaluate_model(
                    bundle,
                    folder if paths else run,  # without a file: on the held-out data of `run`
                    paths,
                    options,
                    where=COMMAND_LINE,
                    threads=machine.threads,
                    announce=lambda count: status.update(f"evaluating on {count:,} examples"),
                )

        evaluated = scores_of(run, bundle)
        compared = None if other is None or second is None else scores_of(other, second)
        _print(run, evaluated, other, compared, json=json)
        if plot is not None:
            _draw_confusion(plot, evaluated, bundle)

    parameters = [
        Argument("run", Argument.POSITIONAL_ONLY, annotation=Path),
        Argument("path", Argument.POSITIONAL_ONLY, default=None, annotation=Path | None),
        *_flags(),
        *_column_flags(),
        Argument("against", Argument.KEYWORD_ONLY, default=None, annotation=Path | None),
        Argument("confusion", Argument.KEYWORD_ONLY, default=None, annotation=Path | None),
        Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=bool),
        Argument(
            "machine", Argument.KEYWORD_ONLY, default=ON_THIS_MACHINE, annotation=MachineFlags
        ),
    ]
    # cyclopts reads both
    evaluate.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    evaluate.__annotations__ = {argument.name: argument.annotation for argument in parameters}
    evaluate.__doc__ = HELP
    return evaluate


def _options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the flags that are set, by the names of options of the evaluation."""
    return {
        f"data.{name.removeprefix(COLUMN)}" if name.startswith(COLUMN) else name: value
        for name, value in chosen.items()
        if value is not None
    }


def _column_flags() -> list[Argument]:
    """A flag for each name of a column or key with which a task reads examples: --data.text."""
    from headway.base.settings import fields_of
    from headway.tasks.registry import task, tasks

    helps: dict[str, dict[str, list[str]]] = {}
    for name in tasks():
        recipes = task(name).recipes
        fields = fields_of(next(iter(recipes.values()))()) if recipes else {}
        for column in COLUMNS:
            if (field := fields.get(f"data.{column}")) is not None:
                owners = helps.setdefault(column, {}).setdefault(field.help, [])
                owners.append(name.replace("_", " "))
    return [
        Argument(
            COLUMN + column,
            Argument.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                Parameter(
                    name=f"--data.{column}",
                    help="; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
                    + "; if unset, as in training",
                ),
            ],
        )
        for column, texts in helps.items()
    ]


def _flags() -> list[Argument]:
    """A flag for each evaluation option of any task. If unset, the default of the task is used."""
    from headway.base.settings import fields_of
    from headway.tasks.registry import task, tasks

    helps: dict[str, dict[str, list[str]]] = {}
    types: dict[str, Any] = {}
    for name in tasks():
        for key, field in fields_of(task(name).evaluation()).items():
            types[key] = types[key] | field.type if key in types else field.type | None
            owners = helps.setdefault(key, {}).setdefault(_with_default(field), [])
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
                    help="; ".join(
                        f"{', '.join(names)}: {text}" for text, names in by_help.items()
                    ),
                ),
            ],
        )
        for key, by_help in helps.items()
    ]


def _with_default(field: Field) -> str:
    """The help of an evaluation option of a task, with its default if that is a value."""
    default = plain(field.default)
    help = field.help.rstrip(".")
    if isinstance(default, bool):
        default = "yes" if default else ""
    return help if default in (None, "", []) else f"{help} (default: {default})"


def _print(
    run: Path, evaluated: ModelScores, other: Path | None, second: ModelScores | None, *, json: bool
) -> None:
    """Print the scores of a model, or of two and their differences."""
    if second is None:
        if json:
            data_json(evaluated.scores.as_dict())
        else:
            for line in evaluated.task.show_scores(evaluated.scores):
                data(line)
        return
    differences = _differences(evaluated, second)
    if json:
        by_metric = {metric: asdict(difference) for metric, difference in differences.items()}
        data_json(evaluated.scores.as_dict() | {"against": {str(other): by_metric}})
        return
    for name, scores in ((run, evaluated), (other, second)):
        data(str(name))
        for line in scores.task.show_scores(scores.scores):
            data(line)
    for line in _difference_lines(run, str(other), differences, evaluated.examples):
        data(line)


def _differences(first: ModelScores, second: ModelScores) -> dict[str, PairedDifference]:
    """Return the difference of each metric that both evaluations have by example.

    UsageError if there is none, or if the models were evaluated on different examples.
    """
    from headway.evaluation import paired_bootstrap

    ours, theirs = first.scores.sums, second.scores.sums
    names = [name for name in ours if name in theirs]
    if not names:
        raise UsageError(
            "--against: these evaluations have no common metric that is a sum over examples",
            hint="leave out --against; translators and classifiers have such metrics",
        )
    if any(len(ours[name]) != len(theirs[name]) for name in names):
        raise UsageError(
            f"--against: the models were evaluated on {first.examples:,} and {second.examples:,} "
            "examples",
            hint="name a file, so that both are evaluated on the same examples",
        )
    return {name: paired_bootstrap(ours[name], theirs[name]) for name in names}


def _difference_lines(
    first: Path, second: str, differences: Mapping[str, PairedDifference], examples: int
) -> list[str]:
    """Format the differences of a paired bootstrap."""
    from headway.evaluation.paired import SAMPLES, SEED

    lines = [
        f"{first} minus {second} (paired bootstrap, {SAMPLES:,} draws of {examples:,} examples, "
        f"seed {SEED})"
    ]
    for name, d in differences.items():
        lines.append(
            f"{name} {d.difference:+.3g}   95 % of draws {d.low:+.3g} to {d.high:+.3g}   "
            f"p = {d.p_value:.3f}"
        )
    return lines


def _draw_confusion(path: Path, evaluated: ModelScores, bundle: Bundle) -> None:
    """Draw the confusion matrix of the scores. UsageError if they have none."""
    from headway.inspection.plots import confusion_matrix

    scores = evaluated.scores
    if scores.confusion is None:
        raise UsageError(
            f"--confusion: the evaluation of a {bundle.kind} has no confusion matrix",
            hint="leave out --confusion; classifiers have one",
        )
    metric = scores.metrics[0]
    title = f"{evaluated.examples:,} examples, {metric.name.replace('_', ' ')} {metric.value:.3f}"
    confusion_matrix(path, scores.confusion.counts, scores.confusion.labels, title=title)
    talk.print(f"drawn     {path}", markup=False)
