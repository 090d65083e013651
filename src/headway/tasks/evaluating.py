"""A run's model on what the run holds out: the evaluation of its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.bundle import Bundle
from headway.evaluation.scores import Metric, Scores
from headway.machine import Machine
from headway.tasks.task import NO_OPTIONS, Task

Scored = Callable[[Any, Callable[..., None], Callable[..., None]], Scores | Mapping[str, float]]
"""The scores of a model, as `SelfEvaluating.evaluate` gives them."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What an evaluation needs of a job. bundle: of a model. held_out: the examples that the task
    evaluates; evaluation: its options."""

    bundle: Callable[[Any], Bundle]
    held_out: Any
    evaluation: Any = NO_OPTIONS


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


def evaluated_by(task: Task, job: Any, machine: Machine) -> Scored:
    """The same as a function of the model, for a student or its teacher."""

    def evaluate(model: Any, emit: Callable[..., None], progress: Callable[..., None]) -> Scores:
        return scores_of(task, job, model, machine, emit, progress)

    return evaluate


def as_scores(numbers: Scores | Mapping[str, float]) -> Scores:
    """Numbers by name as scores, of which higher is better."""
    if isinstance(numbers, Scores):
        return numbers
    return Scores(tuple(Metric(name, value) for name, value in numbers.items()))
