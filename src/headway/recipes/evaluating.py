"""The evaluation of a model by its task, on files or on what its run held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.bundle import Bundle
from headway.errors import DataError, UsageError
from headway.evaluation.scores import Scores
from headway.recipes.catalogue import saved
from headway.settings import override
from headway.tasks.registry import evaluating_task


def score(
    bundle: Bundle,
    run: Path | None,
    paths: Sequence[Path] | None = None,
    options: Mapping[str, Any] = {},
    where: str = "evaluation",
) -> Scores:
    """`Task.evaluate` of the examples in `paths`, or of those that the run held out.

    run: the folder of the bundle. options: settings of the evaluation by name; where: whose words
    they are. UsageError if no task evaluates such a bundle, or if there is nothing to evaluate on.
    """
    is_run = run is not None and (run / "run.yaml").is_file()
    config = saved(run) if run is not None and is_run else None
    task = evaluating_task(bundle.kind, paths[0] if paths else None, config)
    if task is None:
        raise UsageError(
            f"no task evaluates a {bundle.kind} on {paths[0] if paths else 'the data of its run'}",
            hint=f"name a file of examples: headway eval {run or 'RUN'} FILE",
        )
    settings = override(task.evaluation(), options, where)
    if paths is not None:
        examples = task.read(bundle, paths, config, settings)
    elif run is not None and config is not None:
        examples = task.held_out(bundle, run, config, settings)
    else:
        name = "a model without its run" if run is None else f"{run} has no run.yaml, which"
        raise UsageError(
            f"{name} names no data it was trained on",
            hint=f"name a file of examples: headway eval {run or 'RUN'} FILE",
        )
    if not len(examples):
        raise DataError("there is no example to evaluate on", str(paths or run))
    return task.evaluate(bundle, examples, settings)
