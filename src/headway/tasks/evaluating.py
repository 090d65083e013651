"""A run's model on what the run holds out: the evaluation of its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.evaluation.scores import Scores
from headway.machine import Machine
from headway.tasks.task import Task


def scores_of(
    task: Task,
    job: Any,
    model: Any,
    machine: Machine,
    emit: Callable[..., None],
    progress: Callable[[int], None],
) -> Scores:
    """`Task.evaluate` of the model, as the job's bundle, on the job's held-out examples.

    Its samples are told by emit("sample", ...).
    """
    with machine.precision():
        scores = task.evaluate(job.bundle(model), job.held_out, job.evaluation, progress)
    for sample in scores.samples:
        emit("sample", **sample)
    return scores


def evaluated_by(
    task: Task, job: Any, machine: Machine
) -> Callable[[Any, Callable[..., None], Callable[..., None]], Scores]:
    """The same as a function of the model, for a student or its teacher."""

    def evaluate(model: Any, emit: Callable[..., None], progress: Callable[..., None]) -> Scores:
        return scores_of(task, job, model, machine, emit, progress)

    return evaluate
