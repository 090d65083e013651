"""The evaluation of a model by its task, on files or on what its run held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.bundle import Bundle
from headway.errors import DataError, UsageError
from headway.evaluation.scores import Scores
from headway.runs.recipes import saved
from headway.settings import fields_of, override
from headway.tasks.registry import evaluating_task, tasks_of_kind
from headway.tasks.task import Task


@dataclass(frozen=True)
class TaskScores:
    """The scores of a model, and the task that evaluated it on so many examples."""

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
    announce: Callable[[int], None] = lambda examples: None,
) -> TaskScores:
    """`Task.evaluate` of the examples in `paths`, or of those that the run held out.

    run: the folder of the bundle. options: settings of the evaluation by name; where: whose words
    they are. announce: called with the number of examples before they are evaluated. UsageError if
    no task evaluates such a bundle, for an option that it does not have, or if nothing says on
    what; DataError if there is no example.
    """
    is_run = run is not None and (run / "run.yaml").is_file()
    config = saved(run) if run is not None and is_run else None
    task = evaluating_task(bundle.kind, paths[0] if paths else None, config)
    if task is None and not tasks_of_kind(bundle.kind):
        raise UsageError(f"there is no evaluation of a {bundle.kind}")
    if task is None or (paths is None and config is None):
        name = "a model without its run" if run is None else str(run)
        raise UsageError(
            f"{name} does not say what it was trained on",
            hint=f"name a file of examples: headway eval {run or 'RUN'} FILE",
        )
    settings = task.evaluation()
    for option in options:
        if option not in fields_of(settings):
            known = ", ".join(f"--{name.replace('_', '-')}" for name in fields_of(settings))
            raise UsageError(
                f"--{option.replace('_', '-')} is no option of the evaluation of a {bundle.kind}",
                where,
                f"it has {known or 'none'}",
            )
    settings = override(settings, options, where)
    if paths is not None:
        examples = task.read(bundle, paths, config, settings)
    else:
        assert run is not None
        examples = task.held_out(bundle, run, config, settings)
    if not len(examples):
        raise DataError("there is no example to evaluate on", ", ".join(map(str, paths or [])))
    announce(len(examples))
    return TaskScores(task, task.evaluate(bundle, examples, settings), len(examples))
