"""The evaluation of a model by its task, on files or on the held-out data of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.bundle import Bundle
from headway.errors import DataError, UsageError
from headway.evaluation.scores import Scores
from headway.runs.recipes import saved
from headway.settings import COMMAND_LINE, fields_of, override
from headway.tasks.registry import evaluating_task, tasks_of_kind
from headway.tasks.task import Task
from headway.threads import threads_of_run

COLUMNS = "data."
"""Prefix of the settings that say how examples are read."""


@dataclass(frozen=True)
class ModelScores:
    """The scores of a model, the task that evaluated it, and the number of examples."""

    task: Task
    scores: Scores
    examples: int


def evaluate_model(
    bundle: Bundle,
    run: Path | None,
    paths: Sequence[Path] | None = None,
    options: Mapping[str, Any] = {},
    *,
    where: str = "evaluation",
    threads: int | None = None,
    announce: Callable[[int], None] = lambda examples: None,
) -> ModelScores:
    """Evaluate a model on the examples in `paths`, or on the held-out data of its run.

    run: the folder of the model. options: options of the evaluation by name, and settings of the
    data, such as data.text, for files whose columns have other names than those of the training.
    where: the source of the options, for error messages. threads: the number of CPU threads that
    the user has named, which is set already; if None, the evaluation uses that of the run, as the
    training did. announce: called with the number of examples before they are evaluated. UsageError
    if the model has no evaluation, for an unknown option, or if there are neither paths nor a run;
    DataError if there are no examples.
    """
    is_run = run is not None and (run / "run.yaml").is_file()
    config = saved(run) if run is not None and is_run else None
    task = evaluating_task(bundle.kind, paths[0] if paths else None, config)
    if task is None and not tasks_of_kind(bundle.kind):
        raise UsageError(f"there is no evaluation for a {bundle.kind}")
    if task is None or (paths is None and config is None):
        name = "a model without its run" if run is None else str(run)
        raise UsageError(
            f"{name} has no run.yaml, which names the held-out data",
            hint=f"name a file of examples: headway eval {run or 'RUN'} FILE",
        )
    settings = task.evaluation()
    columns = {name: value for name, value in options.items() if name.startswith(COLUMNS)}
    if columns:
        config = _config_for(columns, task, config, run, paths, where)
    _check_known(options, settings, config if columns else None, bundle.kind, where)
    config = override(config, columns, where) if columns else config
    chosen = {name: value for name, value in options.items() if name not in columns}
    settings = override(settings, chosen, where)
    if paths is not None:
        examples = task.read(bundle, paths, config, settings)
    else:
        assert run is not None
        examples = task.held_out(bundle, run, config, settings)
    if not len(examples):
        raise DataError("there are no examples to evaluate on", ", ".join(map(str, paths or [])))
    announce(len(examples))
    recorded = None if config is None else config.machine.threads
    with threads_of_run(recorded if threads is None else None):
        scores = task.evaluate(bundle, examples, settings)
    return ModelScores(task, scores, len(examples))


def _config_for(
    columns: Mapping[str, Any],
    task: Task,
    config: Any,
    run: Path | None,
    paths: Sequence[Path] | None,
    where: str,
) -> Any:
    """Return the configuration that the columns belong to: that of the run, or of the task's first
    recipe if the run is of another task. UsageError if there is no file of examples."""
    if paths is None:
        name = next(iter(columns))
        raise UsageError(
            f"--{name} describes a file of examples, and no file is named",
            where,
            f"name one: headway eval {run or 'RUN'} FILE --{name} NAME",
        )
    return config if isinstance(config, task.config) else next(iter(task.recipes.values()))()


def _check_known(
    options: Mapping[str, Any], settings: Any, config: Any, kind: str, where: str
) -> None:
    """Raise UsageError for an option that is neither an option of the evaluation nor, with a
    configuration, one of its settings."""
    allowed = {*fields_of(settings), *(() if config is None else fields_of(config))}
    for option in options:
        if option not in allowed:
            known = ", ".join(_named(name, where) for name in fields_of(settings))
            raise UsageError(
                f"{_named(option, where)} is no option of the evaluation of a {kind}",
                where,
                f"one of: {known}" if known else "leave it out: this evaluation has no options",
            )


def _named(option: str, where: str) -> str:
    """An option as its caller writes it: a flag on the command line, else its name in Python."""
    return f"--{option.replace('_', '-')}" if where == COMMAND_LINE else option
