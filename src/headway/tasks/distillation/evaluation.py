"""The evaluation of a student: the scores of its task, or its difference from the teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from headway.bundle import Bundle
from headway.evaluation.scores import Metric, Scores
from headway.tasks.task import Task
from headway.training import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
)


@dataclass(frozen=True, kw_only=True)
class TaskExamples:
    """The examples and options with which the teacher's task evaluates a student."""

    task: Task
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
    batches: Callable[[], Iterable[Any]]
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
