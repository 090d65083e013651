"""The evaluation of a student: the scores of its task, or its difference from the teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.evaluation.scores import Metric, Scores
from headway.tasks.distillation.config import DistilRunConfig
from headway.tasks.registry import task_of_family
from headway.tasks.sections import TwoStageConfig
from headway.tasks.task import NO_OPTIONS, AnyTask, NoOptions
from headway.training import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
)


@dataclass(frozen=True, kw_only=True)
class TaskExamples:
    """The examples and options with which the teacher's task evaluates a student."""

    task: AnyTask
    examples: Any
    options: Any

    def __len__(self) -> int:
        return len(self.examples)

    def scores(self, student: Bundle, progress: Callable[[int], None]) -> Scores:
        """Evaluate the student with `Task.evaluate` of the teacher's task."""
        return self.task.evaluate(student, self.examples, self.options, progress)


@dataclass(frozen=True, kw_only=True)
class ComparedBatches:
    """Batches on which a student without outputs is compared with its teacher.

    objective: computes the difference. weights: the weights of its terms.
    """

    objective: DistillationObjective
    batches: Callable[[], Iterator[Any]]
    weights: DistillationConfig

    @torch.inference_mode()
    def scores(self, student: DistillationStudent, progress: Callable[[int], None]) -> Scores:
        """Compute the mean difference per text; lower is better."""
        total, count = 0.0, 0
        for batch in self.batches():
            progress(count)
            loss = self.objective(student, DistillationBatch(batch, self.weights))
            total, count = total + loss.total.item(), count + loss.count
        return Scores((Metric("difference", total / count, higher_is_better=False),))


Compared = TaskExamples | ComparedBatches


def read_examples(
    bundle: Bundle, paths: Sequence[Path], config: Any, options: NoOptions
) -> Compared:
    """Read the examples of files as the teacher's task does."""
    task = _task_of(bundle)
    defaults = task.evaluation()
    examples = task.read(bundle, paths, config, defaults)
    return TaskExamples(task=task, examples=examples, options=defaults)


def held_out_examples(
    bundle: Bundle, run: Path, config: DistilRunConfig, options: NoOptions
) -> Compared:
    """Return the held-out examples of the run.

    Raises UsageError for a student without outputs: its difference from the teacher can be computed
    only during training, because the projection matrices are not saved.
    """
    if not isinstance(config.distillation, TwoStageConfig):
        raise UsageError(
            f"{run} holds a student without outputs, which is evaluated only during training",
            hint="name a file of examples, or fine-tune the student and evaluate that model",
        )
    task = _task_of(bundle)
    defaults = task.evaluation()
    examples = task.held_out(bundle, run, config, defaults)
    return TaskExamples(task=task, examples=examples, options=defaults)


def evaluate(
    bundle: Any,
    examples: Compared,
    options: NoOptions = NO_OPTIONS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Evaluate a student as its teacher's task does, or by its difference from the teacher."""
    return examples.scores(bundle, progress)


def _task_of(student: Bundle) -> AnyTask:
    """Return the task of the student, which is that of its teacher."""
    task = task_of_family(student.config.family)
    assert task is not None
    return task
