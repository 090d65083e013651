"""The job of a distillation run: trains a smaller model of the teacher's kind.

Jiao et al. 2020 (TinyBERT), section 3; Sanh et al. 2019 (initialisation of the student).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.blocks.hidden_states import layer_map, record_blocks, stack_of
from headway.bundle import Bundle
from headway.models import backbone_of, parameter_count, student_config, student_of, with_backbone
from headway.tasks.distillation.config import (
    DistilRunConfig,
    students_of,
    task_of_teacher,
    without_teacher,
)
from headway.tasks.distillation.evaluation import ComparedBatches, TaskExamples
from headway.tasks.job import Emit, Job, update_size
from headway.tasks.opening import load
from headway.tasks.registry import task
from headway.tasks.task import NO_OPTIONS
from headway.tasks.teaching import StudentData, Students, TwoStageConfig
from headway.training import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    Stream,
)


class DistilJob:
    """A `Job` that trains a student to reproduce a teacher on examples.

    Labels of the examples are used for the scores only.
    """

    evaluation = NO_OPTIONS
    held_out: TaskExamples | ComparedBatches

    def __init__(
        self, config: DistilRunConfig, course: StudentData, teacher: Bundle, machine: Machine
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

    def build(self) -> DistillationStudent:
        training = self.config.training
        initial = _initial(self.config, self.teacher)
        student = _earlier(training.student, self.start) if training.student else initial
        _check_pair(student, self.teacher, self.config)
        return DistillationStudent(student, _width(student), _width(self.teacher))

    def stream(self, epoch: int, position: int) -> Stream:
        """Yield batches with the weights of the loss terms, which depend on the batch's number."""
        an_epoch, first = self.course.train_batches.batches_per_epoch, self.first
        number = epoch * an_epoch + position
        for after_epoch, after_position, batch in self.course.train_batches.stream(epoch, position):
            yield (
                after_epoch,
                after_position,
                DistillationBatch(batch, self._compared(number < first)),
            )
            number = after_epoch * an_epoch + after_position

    @property
    def first(self) -> int:
        """The number of batches, the first ones, whose loss compares hidden layers only."""
        training, weights = self.config.training, self.config.distillation
        fraction = weights.first_stage if isinstance(weights, TwoStageConfig) else 0.0
        return round(fraction * training.steps) * training.accumulate

    def _compared(self, inside: bool) -> DistillationConfig:
        weights = self.config.distillation
        if not isinstance(weights, TwoStageConfig):
            return DistillationConfig(**asdict(weights), prediction=0.0)
        if not weights.first_stage:
            return weights
        if inside:
            return replace(weights, prediction=0.0)
        return replace(weights, embedding=0.0, hidden=0.0, attention=0.0)

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """Evaluate the teacher, if its score can be compared with that of a student."""
        if not isinstance(self.held_out, TaskExamples):
            return None
        metric: str = self.config.evaluation.metric
        with self.machine.precision():
            scores = self.held_out.scores(self.course.bundle(self.teacher), progress)
        name = metric.replace("_", " ")
        return f"the teacher's {name} on the held-out examples: {scores[metric]:.4f}"

    def bundle(self, model: Any) -> Bundle:
        return self.course.bundle(model.student)

    def evaluated(self, model: Any) -> Bundle | DistillationStudent:
        """Return the bundle of the student, or the student with its projections if it has no
        outputs."""
        return self.bundle(model) if isinstance(self.held_out, TaskExamples) else model

    def plan(self) -> dict[str, Any]:
        body, training = backbone_of(self.teacher).config, self.config.training
        examples = update_size(training, self.course.train_batches.examples_per_epoch)
        return {
            "model": f"a student of a teacher of {body.num_layers} layers, d={body.model_dim}, "
            f"{parameter_count(self.teacher) / 1e6:.1f} M parameters",
            "batches": f"{examples:,} {self.course.unit}",
            "batches_per_epoch": self.course.train_batches.batches_per_epoch,
            "unit": self.course.unit,
        }


def _width(model: nn.Module) -> int:
    width: int = backbone_of(model).config.model_dim
    return width


def _initial(config: DistilRunConfig, teacher: nn.Module) -> nn.Module:
    """Make a student that is initialised from its teacher as far as its shape allows.

    Raises UsageError for an impossible shape.
    """
    body = backbone_of(teacher)
    try:
        shape = student_config(body.config, config.model.shape)
    except ValueError as error:
        raise UsageError(f"model: {error}") from error
    return with_backbone(teacher, student_of(body, shape))


def _earlier(name: str, teacher: Bundle) -> nn.Module:
    """Load the student `training.student`: a model of the teacher's kind, or a body for one."""
    earlier = load(name, "cpu", dtype="float32")
    model: nn.Module = earlier.model
    if type(model) is type(backbone_of(teacher.model)):
        model = with_backbone(teacher.model, model)
    if type(model) is not type(teacher.model):
        raise UsageError(
            f"training.student={name} holds a {earlier.kind}, but the teacher is a {teacher.kind}",
            hint=f"name a {teacher.kind}, or leave out --training.student",
        )
    if _tokenizer(earlier).fingerprint != _tokenizer(teacher).fingerprint:
        raise UsageError(
            f"training.student={name} has another tokenizer than the teacher",
            hint="headway train distil TEXT --teacher ENCODER trains a student with the same",
        )
    outputs, expected = _outputs(model), _outputs(teacher.model)
    if outputs != expected:
        raise UsageError(
            f"training.student={name} has {outputs} outputs, but the teacher has {expected}"
        )
    return model.train()


def _outputs(model: nn.Module) -> int:
    """Return the number of outputs of the model's head; 0 for a model without a head."""
    head = getattr(model, "head", None)
    return len(head.weight) if isinstance(head, nn.Linear) else 0


def _tokenizer(bundle: Any) -> Any:
    return bundle.reader.tokenizer if hasattr(bundle, "reader") else bundle.tokenizer


def _check_pair(student: nn.Module, teacher: nn.Module, config: DistilRunConfig) -> None:
    """Raise UsageError if hidden layers or attention of student and teacher cannot be compared."""
    student_stack, teacher_stack = stack_of(student), stack_of(teacher)
    weights = config.distillation
    if not weights.compares_hidden_layers:
        return
    try:
        layer_map(len(student_stack.blocks), len(teacher_stack.blocks))
        for stack in (student_stack, teacher_stack):
            with record_blocks(stack):
                pass
    except ValueError as error:
        raise UsageError(f"student and teacher cannot be compared: {error}") from error
    heads = [backbone_of(model).config.num_heads for model in (student, teacher)]
    if weights.attention and heads[0] != heads[1]:
        raise UsageError(
            f"the student has {heads[0]} attention heads, the teacher {heads[1]}: their attention "
            "cannot be compared",
            hint=f"--model.num-heads {heads[1]}, or --distillation.attention 0",
        )


def check(config: DistilRunConfig) -> None:
    """Raise UsageError if examples or the teacher are missing, or if settings conflict."""
    training, weights = config.training, config.distillation
    if training.teacher is None or training.task is None:
        raise without_teacher()
    students = students_of(training.task)
    _check_sections(config, students)
    if not config.data.train:
        raise UsageError(
            "no training examples are named",
            hint=f"headway train distil FILE --teacher {training.teacher}",
        )
    students.check(config)
    prediction = weights.prediction if isinstance(weights, TwoStageConfig) else 0.0
    if not weights.compares_hidden_layers and not prediction:
        raise UsageError(
            "all weights of the distillation loss are 0",
            hint="set at least one of the weights of --distillation above 0",
        )
    if (
        isinstance(weights, TwoStageConfig)
        and weights.first_stage
        and not (weights.compares_hidden_layers and prediction)
    ):
        raise UsageError(
            f"distillation.first_stage={weights.first_stage:g} needs weights above 0 for hidden "
            "layers and for outputs, and those of one stage are 0",
            hint="--distillation.first-stage 0",
        )
    if config.machine.compile:
        raise UsageError(
            "machine.compile does not work with distillation, which records the output of every "
            "block",
            hint="leave out --compile",
        )


def _check_sections(config: DistilRunConfig, students: Students) -> None:
    """Raise UsageError if the configuration was made for the teacher of another task."""
    if type(config.data) is not type(students.data):
        raise UsageError(
            f"training.task={config.training.task} is not the task of the teacher",
            hint="leave training.task unset: the teacher decides it",
        )


def prepare(config: DistilRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the teacher, and prepare the examples with its reader."""
    training = config.training
    teaching = task_of_teacher(str(training.teacher))
    if teaching.name != training.task:
        raise UsageError(
            f"--teacher {training.teacher} is a model of the task {teaching.name}, but this run "
            f"needs a teacher of the task {training.task}",
            hint="--run OTHERNAME for a new run",
        )
    students = students_of(teaching.name)
    teacher = load(str(training.teacher), "cpu")
    teacher.model.to(machine.device)
    course = students.prepare(config, teacher, folder, machine, emit)
    return DistilJob(config, course, teacher, machine)
