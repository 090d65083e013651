"""The contract of a task whose models can be teachers of distillation.

It says how the run of a student is configured, and which batches the student is trained on. The
task `distillation` trains students by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.base.devices import Machine
from headway.base.settings import BATCH, LENGTH, setting
from headway.bundle import Bundle
from headway.data.encoder_batches import EncoderBatch
from headway.data.stream import Batches
from headway.tasks.job import Emit
from headway.tasks.sections import LoopConfig, ObservationConfig
from headway.tasks.task import NO_OPTIONS
from headway.training import DistillationConfig, LayersConfig, View


@dataclass(frozen=True, kw_only=True)
class TwoStageConfig(DistillationConfig):
    """Distillation of models with outputs, in two stages: hidden layers first, then outputs.

    The paper trains so (section 3.2), for a reason: in a 2-layer student of a 6-layer encoder, the
    first gradient of the attention term is 17 times as large as that of the outputs.
    """

    first_stage: float = setting(
        0.5,
        "fraction of the steps, the first ones, whose loss compares hidden layers only; the "
        "remaining steps compare outputs only. 0: both in every step",
        ge=0,
        lt=1,
    )


@dataclass(frozen=True, kw_only=True)
class StudentTrainingConfig(LoopConfig):
    """Settings of the training loop of a student."""

    steps: int = setting(2000, "number of updates", gt=0)
    average: float = setting(
        0.0,
        "decay of the exponential moving average of the weights; 0 switches it off",
        ge=0,
        lt=1,
    )
    batch_size: int = setting(32, "batch size, in texts", gt=0, le=BATCH)
    teacher: str | None = setting(None, "teacher model: a run or a model (short: --teacher)")
    task: str | None = setting(None, "task of the teacher; if unset, the teacher decides it")
    student: str | None = setting(
        None,
        "model that initialises the student: the student of an earlier run, or a small encoder or "
        "language model with the teacher's tokenizer; if unset, layers of the teacher",
    )


@dataclass(frozen=True, kw_only=True)
class TextStudentTrainingConfig(StudentTrainingConfig):
    """Settings of the training loop of a student that is trained on running text."""

    length: int = setting(
        128, "maximum sequence length in tokens, special tokens included", ge=8, le=LENGTH
    )


@dataclass(frozen=True, kw_only=True)
class StudentData:
    """The data of a student's run.

    views(batch): the views of a batch that models of the task compute. bundle(student): the bundle
    in which the student is saved. unit: the unit of the batches, for the terminal. held_out,
    evaluation: the examples and options with which `Task.evaluate` evaluates a student. compared:
    the held-out batches on which student and teacher are compared, for a student without outputs,
    whose score is the difference from its teacher. decided: settings that follow from the data or
    the teacher, by dotted key.
    """

    train_batches: Batches[Any, Any]
    views: Callable[[Any], Sequence[View]]
    bundle: Callable[[Any], Bundle]
    unit: str
    held_out: Any = ()
    evaluation: Any = NO_OPTIONS
    compared: Callable[[], Iterable[Any]] | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Students:
    """How the students of a task's models are configured and trained.

    data, evaluation, training, distillation: the sections of their runs that the task decides, with
    their defaults. check(config): raises UsageError for data and settings that cannot work.
    prepare(config, teacher, folder, machine, emit): prepares the data in the run folder, with the
    tokenizer and the reader of the teacher. decided(config): the dotted keys of the settings that
    the data or the teacher decides. next_commands: as in `Task`; None: those of the task.
    """

    data: Any
    evaluation: ObservationConfig
    check: Callable[[Any], object]
    prepare: Callable[[Any, Any, Path, Machine, Emit], StudentData]
    training: StudentTrainingConfig = StudentTrainingConfig()
    distillation: LayersConfig = TwoStageConfig()
    decided: Callable[[Any], frozenset[str]] = lambda config: frozenset()
    next_commands: Sequence[str] | None = None


@runtime_checkable
class TeacherTask(Protocol):
    """A `Task` whose models can have students."""

    students: Students


def view_of(texts: EncoderBatch) -> View:
    """Return the view that a model with a head on an encoder computes of framed texts."""

    def logits(model: Any) -> Any:
        return model(texts.tokens, texts.keys, texts.types)

    return View(logits=logits, keys=texts.keys, count=len(texts.keys))
