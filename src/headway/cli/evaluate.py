"""`headway eval`: the evaluation of a model by its task."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE, Field, fields_of, plain, setting
from headway.bundle import Bundle
from headway.cli.flags import RUN, as_flags, takes
from headway.cli.machine import Loader, MachineFlags
from headway.evaluation import PairedDifference, paired_bootstrap
from headway.evaluation.paired import SAMPLES, SEED
from headway.exporting.opened import OpenedExport, opened_export, run_of
from headway.inspection.plots import confusion_matrix
from headway.runs.evaluation import ModelScores, evaluate_model
from headway.tasks.opening import with_article
from headway.tasks.registry import task, tasks
from headway.terminal.console import data, data_json, say
from headway.terminal.progress import progress

COLUMNS = ("text", "second", "label", "first", "score", "column", "key", "split", "image")
"""Settings of the data of tasks that say how a file of examples is read."""


@as_flags
class EvaluateFlags(MachineFlags):
    against: Path | None = setting(
        None,
        "Another run or model, evaluated on the same examples: those of the file, or the held-out "
        "data of the first run. A paired bootstrap says whether the difference is more than "
        "chance.",
    )
    confusion: Path | None = setting(
        None, "New file (.png, .svg, .pdf) for a plot of the confusion matrix of a classifier."
    )
    runtime: Literal[
        "auto", "onnxruntime", "openvino", "llama.cpp", "headway", "aotinductor", "ctranslate2"
    ] = setting(
        "auto",
        "Program that computes an exported model: onnxruntime or openvino for a folder of "
        "`headway export --to onnx` or web, llama.cpp or headway for a GGUF file, aotinductor for "
        "--to pt2, ctranslate2 for --to ctranslate2. auto is the first.",
    )
    json: bool = setting(False, "Print one JSON object.")


def _fields() -> dict[str, Field]:
    """A flag for each evaluation option of any task, and for each name of a column, as --data.text.

    If unset, the default of the task is used.
    """
    helps: dict[str, dict[str, list[str]]] = {}
    types: dict[str, Any] = {}

    def add(owner: str, key: str, kind: Any, help: str) -> None:
        types[key] = types[key] | kind if key in types else kind | None
        helps.setdefault(key, {}).setdefault(help, []).append(owner.replace("_", " "))

    for name in tasks():
        recipes = task(name).recipes
        for key, field in fields_of(task(name).evaluation()).items():
            add(name, key, field.type, _with_default(field))
        data = fields_of(next(iter(recipes.values()))()) if recipes else {}
        for column in COLUMNS:
            if (key := f"data.{column}") in data:
                add(name, key, str, f"{data[key].help}; if unset, as in training")
    return {
        key: Field(
            key,
            types[key],
            None,
            "; ".join(f"{', '.join(owners)}: {help}" for help, owners in helps[key].items()),
            {},
        )
        for key in helps
    }


def _with_default(field: Field) -> str:
    """The help of an evaluation option of a task, with its default if that is a value."""
    default = plain(field.default)
    help = field.help.rstrip(".")
    if isinstance(default, bool):
        default = "yes" if default else ""
    return help if default in (None, "", []) else f"{help} (default: {default})"


@takes(_fields())
def evaluate(
    run: Annotated[Path, RUN],
    path: Path | None = None,
    /,
    *,
    flags: EvaluateFlags = EvaluateFlags(),
    **options: object,
) -> None:
    """Evaluate a model with the metrics of its task.

    The metrics are computed as in the evaluations during training. Without a path, a run is
    evaluated on its held-out data. A folder of `headway export --to onnx`, web, pt2, gguf or
    ctranslate2 is computed by the program that its users run, and so is a GGUF file; without a
    path, it is evaluated on the held-out data of the run that it is in.

    Parameters
    ----------
    path
        A file or folder of examples with their references or labels, in a format of training.
    """
    other, loader = flags.against, flags.prepare()
    if flags.confusion is not None:
        check_new_file(flags.confusion)
    with ExitStack() as running:
        exported = {
            folder: running.enter_context(opened_export(folder, flags.runtime))
            for folder in (run, other)
            if folder is not None
        }
        _evaluate(run, path, flags, options, loader, exported)


def _evaluate(
    run: Path,
    path: Path | None,
    flags: EvaluateFlags,
    options: Mapping[str, object],
    loader: Loader,
    exported: Mapping[Path, OpenedExport | None],
) -> None:
    """Evaluate the opened models, and print the scores."""
    other, paths = flags.against, None if path is None else [path]

    def opened(folder: Path) -> Bundle:
        export = exported[folder]
        return loader.load(folder) if export is None else export.bundle

    bundle = opened(run)
    second = None if other is None else opened(other)
    if second is not None and second.kind != bundle.kind:
        raise UsageError(
            f"{run} holds {with_article(bundle.kind)}, {other} {with_article(second.kind)}",
            f"--against {other}",
            "compare models of one kind",
        )

    def scores_of(folder: Path, bundle: Bundle) -> ModelScores:
        source = folder if paths else run  # without a file: on the held-out data of `run`
        begun = perf_counter()
        with loader.precision(), progress("evaluating") as report:
            evaluated = evaluate_model(
                bundle,
                source if exported.get(source) is None else run_of(source),
                paths,
                options,
                where=COMMAND_LINE,
                threads=flags.threads,
                progress=report,
            )
        if (export := exported[folder]) is not None:
            seconds = perf_counter() - begun
            speed = f"{evaluated.examples / seconds:,.1f} {evaluated.unit} per second"
            size = f"{export.size / 1e6:,.2f} MB"
            say(f"runtime   {export.runtime} · {export.dtype} · {size} · {speed}")
            measured = export.measured(evaluated, seconds)
            details = {**evaluated.scores.details, "exported": measured}
            evaluated = replace(evaluated, scores=replace(evaluated.scores, details=details))
        return evaluated

    evaluated = scores_of(run, bundle)
    compared = None if other is None or second is None else scores_of(other, second)
    _print(run, evaluated, other, compared, json=flags.json)
    if flags.confusion is not None:
        _draw_confusion(flags.confusion, evaluated, bundle)


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
    scores = evaluated.scores
    if scores.confusion is None:
        raise UsageError(
            f"--confusion: the evaluation of a {bundle.kind} has no confusion matrix",
            hint="leave out --confusion; classifiers have one",
        )
    metric = scores.metrics[0]
    title = f"{evaluated.examples:,} examples, {metric.name.replace('_', ' ')} {metric.value:.3f}"
    confusion_matrix(path, scores.confusion.counts, scores.confusion.labels, title=title)
    say(f"drawn     {path}")
