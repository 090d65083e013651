"""A training run of a student: a teacher and its examples in, a smaller model of the same kind out.

Jiao et al. 2020 (TinyBERT), section 3; Sanh et al. 2019 (what a student begins with).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.blocks.hidden_states import layer_map, stack_of, watch_blocks
from headway.bundle import Bundle
from headway.errors import UsageError
from headway.machine import Machine
from headway.models import body_of, parameter_count, student_config, student_of, with_body
from headway.settings import override
from headway.tasks.distillation.config import (
    DistilRunConfig,
    students_of,
    task_of_teacher,
    without_teacher,
)
from headway.tasks.distillation.evaluation import ComparedBatches, TaskExamples
from headway.tasks.job import Emit, Job
from headway.tasks.opening import load
from headway.tasks.registry import task
from headway.tasks.task import NO_OPTIONS
from headway.tasks.teaching import Course, StagedConfig, Students
from headway.training import (
    DistillationConfig,
    DistillationObjective,
    Distilled,
    Lesson,
    Stream,
)


class DistilJob:
    """A `Job`: a trained model, a smaller one that learns to compute the same, and examples.

    The labels of the examples are for the scores alone; the student learns from its teacher.
    """

    evaluation = NO_OPTIONS
    held_out: TaskExamples | ComparedBatches

    def __init__(
        self, config: DistilRunConfig, course: Course, teacher: Bundle, machine: Machine
    ) -> None:
        self.config: DistilRunConfig = override(config, course.decided, "the teacher")
        self.course, self.start, self.machine = course, teacher, machine
        self.teacher: nn.Module = teacher.model.to(machine.device).eval()
        self.objective = DistillationObjective(self.teacher, course.views)
        if course.compared is None:
            self.held_out = TaskExamples(
                task=task(str(config.training.task)),
                examples=course.held_out,
                options=course.evaluation,
            )
        else:
            self.held_out = ComparedBatches(
                objective=self.objective,
                batches=course.compared,
                weights=self._compared(False),
            )

    def build(self) -> Distilled:
        training = self.config.training
        fresh = _fresh(self.config, self.teacher)
        student = _earlier(training.student, self.start) if training.student else fresh
        _check_pair(student, self.teacher, self.config)
        return Distilled(student, _width(student), _width(self.teacher))

    def stream(self, epoch: int, position: int) -> Stream:
        """Batches with what is compared of them, which follows from how many came before."""
        an_epoch, first = self.course.rows.batches_an_epoch, self.first
        seen = epoch * an_epoch + position
        for after_epoch, after_position, batch in self.course.rows.stream(epoch, position):
            yield after_epoch, after_position, Lesson(batch, self._compared(seen < first))
            seen = after_epoch * an_epoch + after_position

    @property
    def first(self) -> int:
        """Batches of which the insides alone are compared."""
        training, weights = self.config.training, self.config.distillation
        share = weights.inside_first if isinstance(weights, StagedConfig) else 0.0
        return round(share * training.steps) * training.accumulate

    def _compared(self, inside: bool) -> DistillationConfig:
        weights = self.config.distillation
        if not isinstance(weights, StagedConfig):
            return DistillationConfig(**asdict(weights), prediction=0.0)
        if not weights.inside_first:
            return weights
        if inside:
            return replace(weights, prediction=0.0)
        return replace(weights, embedding=0.0, hidden=0.0, attention=0.0)

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """The teacher's score, where a student's can be compared with it."""
        if not isinstance(self.held_out, TaskExamples):
            return None
        metric: str = self.config.evaluation.metric
        with self.machine.precision():
            scores = self.held_out.scores(self.course.bundle(self.teacher), progress)
        name = metric.replace("_", " ")
        return f"the teacher's {name} on what is held out: {scores[metric]:.4f}"

    def bundle(self, model: Any) -> Bundle:
        return self.course.bundle(model.student)

    def evaluated(self, model: Any) -> Bundle | Distilled:
        """The student; of one without outputs, with the matrices by which it is compared."""
        return self.bundle(model) if isinstance(self.held_out, TaskExamples) else model

    def plan(self) -> dict[str, Any]:
        body, training = body_of(self.teacher).config, self.config.training
        return {
            "model": f"a student of a teacher of {body.num_layers} layers, d={body.model_dim}, "
            f"{parameter_count(self.teacher) / 1e6:.1f} M parameters",
            "batches": f"{training.rows * training.accumulate:,} {self.course.unit}",
            "batches_an_epoch": self.course.rows.batches_an_epoch,
            "unit": self.course.unit,
        }


def _width(model: nn.Module) -> int:
    width: int = body_of(model).config.model_dim
    return width


def _fresh(config: DistilRunConfig, teacher: nn.Module) -> nn.Module:
    """A student with what it can take from its teacher; UsageError for an impossible shape."""
    body = body_of(teacher)
    try:
        shape = student_config(body.config, config.model.shape)
    except ValueError as error:
        raise UsageError(f"model: {error}") from error
    return with_body(teacher, student_of(body, shape))


def _earlier(name: str, teacher: Bundle) -> nn.Module:
    """The student of `training.student`: a model of the teacher's kind, or a body for one."""
    earlier = load(name)
    model: nn.Module = earlier.model
    if type(model) is type(body_of(teacher.model)):
        model = with_body(teacher.model, model)
    if type(model) is not type(teacher.model):
        raise UsageError(
            f"training.student={name} holds a {earlier.kind}, and the teacher is a {teacher.kind}"
        )
    if _tokenizer(earlier).fingerprint != _tokenizer(teacher).fingerprint:
        raise UsageError(
            f"training.student={name} has another tokenizer than the teacher",
            hint="headway train distil TEXT --teacher ENCODER makes one with the same",
        )
    ours, theirs = _outputs(model), _outputs(teacher.model)
    if ours != theirs:
        raise UsageError(f"training.student={name} has {ours} outputs, the teacher {theirs}")
    return model.train()


def _outputs(model: nn.Module) -> int:
    """Of its head; 0 for one that has none."""
    head = getattr(model, "head", None)
    return len(head.weight) if isinstance(head, nn.Linear) else 0


def _tokenizer(bundle: Any) -> Any:
    return bundle.reader.tokenizer if hasattr(bundle, "reader") else bundle.tokenizer


def _check_pair(student: nn.Module, teacher: nn.Module, config: DistilRunConfig) -> None:
    """UsageError unless what is to be compared can be."""
    ours, theirs = stack_of(student), stack_of(teacher)
    weights = config.distillation
    if not weights.looks_inside:
        return
    try:
        layer_map(len(ours.blocks), len(theirs.blocks))
        for stack in (ours, theirs):
            with watch_blocks(stack):
                pass
    except ValueError as error:
        raise UsageError(f"student and teacher cannot be compared: {error}") from error
    heads = [body_of(model).config.num_heads for model in (student, teacher)]
    if weights.attention and heads[0] != heads[1]:
        raise UsageError(
            f"the student has {heads[0]} attention heads, the teacher {heads[1]}: their attention "
            "cannot be compared",
            hint=f"--model.num-heads {heads[1]}, or --distillation.attention 0",
        )


def check(config: DistilRunConfig) -> None:
    """UsageError unless there are examples and a teacher, and the settings go together."""
    training, weights = config.training, config.distillation
    if training.teacher is None or training.task is None:
        raise without_teacher()
    students = students_of(training.task)
    _check_sections(config, students)
    if not config.data.train:
        raise UsageError(
            "there are no examples to learn from",
            hint=f"headway train distil FILE --teacher {training.teacher}",
        )
    students.check(config)
    prediction = weights.prediction if isinstance(weights, StagedConfig) else 0.0
    if not weights.looks_inside and not prediction:
        raise UsageError("all weights of the distillation are 0: there is nothing to learn")
    if (
        isinstance(weights, StagedConfig)
        and weights.inside_first
        and not (weights.looks_inside and prediction)
    ):
        raise UsageError(
            f"distillation.inside_first={weights.inside_first:g} needs something to compare in "
            "both parts, and one has the weight 0",
            hint="--distillation.inside-first 0",
        )
    if config.machine.compile:
        raise UsageError(
            "a student and its teacher are watched block by block, and cannot be compiled",
            hint="leave out --compile",
        )


def _check_sections(config: DistilRunConfig, students: Students) -> None:
    """UsageError if the configuration was made for the teacher of another task."""
    if type(config.data) is not type(students.data):
        raise UsageError(
            f"training.task={config.training.task} is not the task of the teacher",
            hint="leave it out: the teacher decides it",
        )


def prepare(config: DistilRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """The examples, read as the teacher reads them, and the teacher."""
    training = config.training
    taught = task_of_teacher(str(training.teacher))
    if taught.name != training.task:
        raise UsageError(
            f"--teacher {training.teacher} is a model of {taught.name}, and this run learns from "
            f"one of {training.task}",
            hint="--run OTHERNAME for a new run",
        )
    students = students_of(taught.name)
    teacher = load(str(training.teacher))
    teacher.model.to(machine.device)
    course = students.prepare(config, teacher, folder, machine, emit)
    return DistilJob(config, course, teacher, machine)
