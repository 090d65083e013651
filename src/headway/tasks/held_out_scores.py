"""Evaluates the model of a run on the run's held-out examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.base.devices import Machine
from headway.evaluation.scores import Scores
from headway.tasks.job import AnyJob
from headway.tasks.task import AnyTask


def scores_of(
    task: AnyTask,
    job: AnyJob,
    model: Any,
    machine: Machine,
    emit: Callable[..., None],
    progress: Callable[[int], None],
) -> Scores:
    """Evaluate the model with `Task.evaluate` on the job's held-out examples.

    Samples are sent to emit("sample", ...). Returns the scores.
    """
    bundle = (job.evaluated or job.bundle)(model)
    with machine.precision():
        scores = task.evaluate(bundle, job.held_out, job.evaluation, progress)
    for sample in scores.samples:
        emit("sample", **sample)
    return scores
