"""Small students as a run: a teacher and its texts in, a smaller model of the same kind out.

Jiao et al. 2020 (TinyBERT), section 3; Sanh et al. 2019 (what a student begins with).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.blocks.watch import layer_map, stack_of, watch_blocks
from headway.bundle import Bundle
from headway.errors import UsageError
from headway.evaluation.scores import Scores
from headway.machine import Machine
from headway.models import body_of, parameter_count, student_config, student_of, with_body
from headway.recipes.distil_config import StagedConfig, StudentRunConfig
from headway.recipes.distil_kinds import KINDS, Course
from headway.settings import override
from headway.tasks.job import Emit, Family, Job
from headway.tasks.opening import load
from headway.training import (
    DistillationConfig,
    DistillationObjective,
    Distilled,
    Lesson,
    Stream,
)


class DistilJob:
    """A `Job`: a trained model, a smaller one that learns to compute the same, and texts.

    What the texts are said to be is for the scores alone; the student learns from its teacher.
    """

    def __init__(
        self, config: StudentRunConfig, course: Course, teacher: Bundle, machine: Machine
    ) -> None:
        self.config: StudentRunConfig = override(config, course.decided, "the teacher")
        self.course, self.start, self.machine = course, teacher, machine
        self.teacher: nn.Module = teacher.model.to(machine.device).eval()
        self.objective = DistillationObjective(self.teacher, course.views)

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
        training, asked = self.config.training, self.config.distillation
        share = asked.inside_first if isinstance(asked, StagedConfig) else 0.0
        return round(share * training.steps) * training.accumulate

    def _compared(self, inside: bool) -> DistillationConfig:
        asked = self.config.distillation
        if not isinstance(asked, StagedConfig):
            return DistillationConfig(**asdict(asked), prediction=0.0)
        if not asked.inside_first:
            return asked
        if inside:
            return replace(asked, prediction=0.0)
        return replace(asked, embedding=0.0, hidden=0.0, attention=0.0)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> Scores | Mapping[str, float]:
        """The student's scores on what is held out; of an encoder, how far it is from its
        teacher."""
        if self.course.evaluate is not None:
            return self.course.evaluate(model.student, emit, go_on)
        total, count = 0.0, 0
        for batch in self.course.held_out():
            go_on()
            with self.machine.precision():
                found = self.objective(model, Lesson(batch, self._compared(False)))
            total, count = total + found.total.item(), count + found.count
        return {"difference": total / count, "negative_difference": -total / count}

    def baseline(self, go_on: Callable[..., None]) -> str | None:
        """The teacher's score, where a student's can be compared with it."""
        if self.course.evaluate is None:
            return None
        metric = self.config.evaluation.metric
        score = self.course.evaluate(self.teacher, lambda *_, **__: None, go_on)[metric]
        return f"the teacher's {metric.replace('_', ' ')} on what is held out: {score:.4f}"

    def bundle(self, model: Any) -> Bundle:
        return self.course.bundle(model.student)

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


def _fresh(config: StudentRunConfig, teacher: nn.Module) -> nn.Module:
    """A student with what it can take from its teacher; UsageError for an impossible shape."""
    body = body_of(teacher)
    try:
        shape = student_config(body.config, config.model.shape)
    except ValueError as error:
        raise UsageError(f"model: {error}") from error
    return with_body(teacher, student_of(body, shape))


def _earlier(name: str, teacher: Bundle) -> nn.Module:
    """The student of `training.student`: a model of the teacher's kind, or a body for one."""
    found = load(name)
    model: nn.Module = found.model
    if type(model) is type(body_of(teacher.model)):
        model = with_body(teacher.model, model)
    if type(model) is not type(teacher.model):
        raise UsageError(
            f"training.student={name} holds a {found.kind}, and the teacher is a {teacher.kind}"
        )
    if _tokenizer(found).fingerprint != _tokenizer(teacher).fingerprint:
        raise UsageError(
            f"training.student={name} has another tokenizer than the teacher",
            hint="headway train distil-encoder TEXT --from ENCODER makes one with the same",
        )
    ours, theirs = (_outputs(each) for each in (model, teacher.model))
    if ours != theirs:
        raise UsageError(f"training.student={name} has {ours} outputs, the teacher {theirs}")
    return model.train()


def _outputs(model: nn.Module) -> int:
    """Of its head; 0 for one that has none."""
    head = getattr(model, "head", None)
    return len(head.weight) if isinstance(head, nn.Linear) else 0


def _tokenizer(bundle: Any) -> Any:
    return bundle.reader.tokenizer if hasattr(bundle, "reader") else bundle.tokenizer


def _check_pair(student: nn.Module, teacher: nn.Module, config: StudentRunConfig) -> None:
    """UsageError unless what is to be compared can be."""
    ours, theirs = stack_of(student), stack_of(teacher)
    asked = config.distillation
    if not asked.looks_inside:
        return
    try:
        layer_map(len(ours.blocks), len(theirs.blocks))
        for stack in (ours, theirs):
            with watch_blocks(stack):
                pass
    except ValueError as error:
        raise UsageError(f"student and teacher cannot be compared: {error}") from error
    heads = [body_of(model).config.num_heads for model in (student, teacher)]
    if asked.attention and heads[0] != heads[1]:
        raise UsageError(
            f"the student has {heads[0]} attention heads, the teacher {heads[1]}: their attention "
            "cannot be compared",
            hint=f"--model.num-heads {heads[1]}, or --distillation.attention 0",
        )


def _check(config: StudentRunConfig) -> None:
    """UsageError unless there are texts and a teacher, and the settings go together."""
    asked = config.distillation
    if config.training.start is None:
        raise UsageError(
            "a student needs a teacher, and none is named",
            hint="--from RUN; headway train classify TEXTS --from ENCODER makes one",
        )
    KINDS[type(config)].check(config)
    says = asked.prediction if isinstance(asked, StagedConfig) else 0.0
    if not asked.looks_inside and not says:
        raise UsageError("all weights of the distillation are 0: there is nothing to learn")
    if isinstance(asked, StagedConfig) and asked.inside_first and not (asked.looks_inside and says):
        raise UsageError(
            f"distillation.inside_first={asked.inside_first:g} needs something to compare in both "
            "parts, and one has the weight 0",
            hint="--distillation.inside-first 0",
        )
    if config.machine.compile:
        raise UsageError(
            "a student and its teacher are watched block by block, and cannot be compiled",
            hint="leave out --compile",
        )


def _prepare(config: StudentRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    kind = KINDS[type(config)]
    teacher = load(str(config.training.start))
    if not isinstance(teacher, kind.teacher):
        makes = [
            made().recipe for made, other in KINDS.items() if isinstance(teacher, other.teacher)
        ]
        raise UsageError(
            f"{config.training.start} holds a {teacher.kind}, and {config.recipe} makes students "
            f"of a {kind.teacher.kind}",
            hint=f"headway train {makes[0]} DATA --from {config.training.start}" if makes else None,
        )
    teacher.model.to(machine.device)
    course = kind.prepare(config, teacher, folder, machine, emit)
    return DistilJob(config, course, teacher, machine)


DISTILLATION = Family(check=_check, prepare=_prepare)
"""All that the training run of a student needs of its family, whatever the kind."""
