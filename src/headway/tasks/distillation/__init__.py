"""Distillation: a small student is trained to reproduce the outputs and hidden states of a teacher.

Jiao et al. 2020 (TinyBERT). The teacher's task reads the examples and evaluates the students
(`TeacherTask`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.evaluation.scores import Scores
from headway.tasks.distillation.config import (
    DistilRunConfig,
    distil,
    for_task,
    for_teacher,
    students_of,
    tasks_of_teachers,
)
from headway.tasks.distillation.evaluation import ComparedBatches, TaskExamples
from headway.tasks.distillation.job import check, prepare
from headway.tasks.job import Emit, Job
from headway.tasks.registry import task, task_of_family
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Task, TaskDefaults
from headway.tasks.teaching import TwoStageConfig


class Distillation(TaskDefaults):
    """The `Task` of distillation. Its students are models of the teacher's task."""

    name = "distillation"
    config: type[Any] = DistilRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"distil": distil}
    bundles: Mapping[str, BundleSpec] = {}
    next_commands: Sequence[str] = ("eval {run}",)

    def derived(self, config: DistilRunConfig, settings: Mapping[str, Any]) -> DistilRunConfig:
        """Return the configuration with the sections of the teacher's task (`for_teacher`)."""
        return for_teacher(config, settings)

    def variants(self) -> Sequence[DistilRunConfig]:
        return [for_task(distil(), name) for name in tasks_of_teachers()]

    def commands_after(self, config: DistilRunConfig) -> Sequence[str]:
        """Return the commands of the teacher's task, or those that it declares for students."""
        name = str(config.training.task)
        commands = students_of(name).next_commands
        return task(name).next_commands if commands is None else commands

    def check(self, config: DistilRunConfig) -> None:
        check(config)

    def prepare(self, config: DistilRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self, bundle: Bundle, paths: Sequence[Path], config: Any | None, options: NoOptions
    ) -> TaskExamples:
        task_of_teacher = _task_of(bundle)
        defaults = task_of_teacher.evaluation()
        examples = task_of_teacher.read(bundle, paths, config, defaults)
        return TaskExamples(task=task_of_teacher, examples=examples, options=defaults)

    def held_out(
        self, bundle: Bundle, run: Path, config: DistilRunConfig, options: NoOptions
    ) -> TaskExamples:
        """Return the held-out examples of the run.

        Raises UsageError for a student without outputs: its difference from the teacher can be
        computed only during training, because the projection matrices are not saved.
        """
        if not isinstance(config.distillation, TwoStageConfig):
            raise UsageError(
                f"{run} holds a student without outputs, which is evaluated only during training",
                hint="name a file of examples, or fine-tune the student and evaluate that model",
            )
        task_of_teacher = _task_of(bundle)
        defaults = task_of_teacher.evaluation()
        examples = task_of_teacher.held_out(bundle, run, config, defaults)
        return TaskExamples(task=task_of_teacher, examples=examples, options=defaults)

    def evaluate(
        self,
        bundle: Any,
        examples: TaskExamples | ComparedBatches,
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return examples.scores(bundle, progress)


def _task_of(student: Any) -> Task:
    """Return the task of the student, which is that of its teacher."""
    task_of_teacher = task_of_family(student.model.config.family)
    assert task_of_teacher is not None
    return task_of_teacher


TASK = Distillation()
