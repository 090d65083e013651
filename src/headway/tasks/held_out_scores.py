"""A run's model on what the run holds out: the evaluation of its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.evaluation.scores import Scores
from headway.machine import Machine
from headway.tasks.job import Accompanied, Job
from headway.tasks.task import Task


def scores_of(
    task: Task,
    job: Job,
    model: Any,
    machine: Machine,
    emit: Callable[..., None],
    progress: Callable[[int], None],
) -> Scores:
    """`Task.evaluate` of the model, as the job's bundle, on the job's held-out examples.

    Its samples are told by emit("sample", ...).
    """
    bundle = job.evaluated(model) if isinstance(job, Accompanied) else job.bundle(model)
    with machine.precision():
        scores = task.evaluate(bundle, job.held_out, job.evaluation, progress)
    for sample in scores.samples:
        emit("sample", **sample)
    return scores
