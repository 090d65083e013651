"""The evaluation of a model by its task, on files or on the held-out data of its run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.base.settings import COMMAND_LINE, fields_of, override
from headway.base.sharing import Share
from headway.base.threads import threads_of_run
from headway.bundle import Bundle
from headway.evaluation.scores import Scores
from headway.runs.recipes import AnyRunConfig, saved_or_none
from headway.tasks.registry import evaluating_task, tasks_of_kind
from headway.tasks.task import AnyTask

COLUMNS = "data."
"""Prefix of the settings that say how examples are read."""


@dataclass(frozen=True)
class ModelScores:
    """The scores of a model, the task that evaluated it, and the number of examples.

    unit: what is counted: tokens of running text, or else examples.
    """

    task: AnyTask
    scores: Scores
    examples: int
    unit: str = "examples"


def evaluate_model(
    bundle: Bundle,
    run: Path | None,
    paths: Sequence[Path] | None = None,
    options: Mapping[str, object] = {},
    *,
    where: str = "evaluation",
    threads: int | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> ModelScores:
    """Evaluate a model on the examples in `paths`, or on the held-out data of its run.

    run: the folder of the model. options: options of the evaluation by name, and settings of the
    data, such as data.text, for files whose columns have other names than those of the training.
    where: the source of the options, for error messages. threads: the number of CPU threads that
    the user has named, which is set already; if None, the evaluation uses that of the run, as the
    training did. progress: called with the fraction of the examples that are evaluated. UsageError
    if the model has no evaluation, for an unknown option, or if there are neither paths nor a run;
    DataError if there are no examples.
    """
    config = None if run is None else saved_or_none(run)
    task = evaluating_task(bundle.kind, paths[0] if paths else None, config)
    if task is None and not tasks_of_kind(bundle.kind):
        raise UsageError(f"there is no evaluation for a {bundle.kind}")
    if task is None or (paths is None and config is None):
        name = "a model without its run" if run is None else str(run)
        raise UsageError(
            f"{name} has no run.yaml, which names the held-out data",
            hint=f"name a file of examples: headway eval {run or 'RUN'} FILE",
        )
    columns = {name: value for name, value in options.items() if name.startswith(COLUMNS)}
    if columns and paths is None:
        raise UsageError(
            f"--{next(iter(columns))} describes a file of examples, and no file is named",
            where,
            f"name one: headway eval {run or 'RUN'} FILE --{next(iter(columns))} NAME",
        )
    config, settings = _with_options(task, config, options, bundle.kind, where)
    if paths is not None:
        examples = task.read(bundle, paths, config, settings)
    else:
        assert run is not None
        examples = task.held_out(bundle, run, config, settings)
    if not len(examples):
        raise DataError("there are no examples to evaluate on", ", ".join(map(str, paths or [])))
    count = len(examples)
    recorded = None if config is None else config.machine.threads
    with threads_of_run(recorded if threads is None else None):
        scores = task.evaluate(
            bundle, examples, settings, Share(lambda done: progress(min(done / count, 1.0)))
        )
    return ModelScores(task, scores, count, getattr(examples, "unit", ModelScores.unit))


def _with_options(
    task: AnyTask,
    config: AnyRunConfig | None,
    options: Mapping[str, object],
    kind: str,
    where: str,
) -> tuple[AnyRunConfig | None, Any]:
    """Return the configuration with the columns in the options, and the settings of the evaluation.

    kind: of the model, for errors. Raises UsageError for an unknown option.
    """
    settings = task.evaluation()
    columns = {name: value for name, value in options.items() if name.startswith(COLUMNS)}
    if columns and not isinstance(config, task.config):  # of another task, or of no run
        config = next(iter(task.recipes.values()))()
    known_columns = fields_of(config) if columns and config is not None else {}
    for option in options:
        if option not in {**fields_of(settings), **known_columns}:
            known = ", ".join(_named(name, where) for name in fields_of(settings))
            raise UsageError(
                f"{_named(option, where)} is no option of the evaluation of a {kind}",
                where,
                f"one of: {known}" if known else "leave it out: this evaluation has no options",
            )
    chosen = {name: value for name, value in options.items() if name not in columns}
    if config is not None:
        config = override(config, columns, where)
    return config, override(settings, chosen, where)


def _named(option: str, where: str) -> str:
    """An option as its caller writes it: a flag on the command line, else its name in Python."""
    return f"--{option.replace('_', '-')}" if where == COMMAND_LINE else option
