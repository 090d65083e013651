"""The contract of a task whose models can have students: how a student's run is configured, and
what it learns from. The task `distillation` trains students by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.bundle import Bundle
from headway.data.encoder_batches import FramedBatch
from headway.machine import Machine
from headway.settings import BATCH, LENGTH, setting
from headway.tasks.job import Emit
from headway.tasks.sections import LoopConfig, ObservationConfig
from headway.tasks.task import NO_OPTIONS
from headway.training import DistillationConfig, LayersConfig, Stream, View


@dataclass(frozen=True, kw_only=True)
class StagedConfig(DistillationConfig):
    """Of models with outputs: what is compared, and when.

    One after the other is the paper's way (section 3.2), and for cause: of a 6-layer encoder's
    2-layer student the first gradient of the attention term is 17 times that of the outputs.
    """

    inside_first: float = setting(
        0.5,
        "share of the steps that compare the insides alone; those after it compare the outputs "
        "alone. 0: both at every step",
        ge=0,
        lt=1,
    )


@dataclass(frozen=True, kw_only=True)
class StudentTrainingConfig(LoopConfig):
    """The training loop of a student."""

    steps: int = setting(2000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(32, "texts of a batch", gt=0, le=BATCH)
    teacher: str | None = setting(
        None, "the model to learn from: a run or a model (short: --teacher)"
    )
    task: str | None = setting(None, "task of the teacher; if unset, the teacher decides it")
    student: str | None = setting(
        None,
        "what the student is initialised from: that of an earlier run, or a small encoder or "
        "language model with the teacher's tokenizer; if unset, layers of the teacher",
    )


@dataclass(frozen=True, kw_only=True)
class TextStudentTrainingConfig(StudentTrainingConfig):
    """Of models of running text."""

    length: int = setting(128, "most tokens of a row, marks included", ge=8, le=LENGTH)


@runtime_checkable
class Rows(Protocol):
    """What a student reads, batch by batch."""

    @property
    def batches_an_epoch(self) -> int: ...

    def stream(self, epoch: int, position: int) -> Stream: ...


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a student learns from.

    views(batch): how models of the task read it. bundle(student): as it is used and saved. unit: of
    the batches. held_out, evaluation: the examples and options with which `Task.evaluate` evaluates
    a student. compared: for a student without outputs, whose difference from its teacher is its
    score, the held-out batches on which it is computed. decided: settings that follow from the data
    or the teacher.
    """

    rows: Rows
    views: Callable[[Any], Sequence[View]]
    bundle: Callable[[Any], Bundle]
    unit: str
    held_out: Any = ()
    evaluation: Any = NO_OPTIONS
    compared: Callable[[], Iterable[Any]] | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Students:
    """How the students of a task's models are configured and taught.

    data, evaluation, training, distillation: the sections of their runs that the task decides, with
    their defaults. check(config): UsageError for data and settings that cannot work.
    prepare(config, teacher, folder, machine, emit): the data in the run folder, read as the teacher
    reads. decided: settings that the data or the teacher decides. next_commands: as in `Task`; None
    for those of the task.
    """

    data: Any
    evaluation: ObservationConfig
    check: Callable[[Any], object]
    prepare: Callable[[Any, Any, Path, Machine, Emit], Course]
    training: StudentTrainingConfig = StudentTrainingConfig()
    distillation: LayersConfig = StagedConfig()
    decided: Callable[[Any], frozenset[str]] = lambda config: frozenset()
    next_commands: Sequence[str] | None = None


@runtime_checkable
class Teaching(Protocol):
    """A `Task` whose models can have students."""

    students: Students


def view_of(texts: FramedBatch) -> View:
    """How models with a head on an encoder read framed texts."""

    def logits(model: Any) -> Any:
        return model(texts.tokens, texts.keys, texts.types)

    return View(logits=logits, keys=texts.keys, count=len(texts.keys))
