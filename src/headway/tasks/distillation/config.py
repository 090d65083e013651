"""Configuration of a distillation run, whose sections follow from the teacher's task, and the
recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from headway.errors import UsageError
from headway.settings import HEADS, LAYERS, WIDTH, section, setting
from headway.tasks.opening import family_of, with_article
from headway.tasks.registry import TASKS, task, task_of_family, tasks
from headway.tasks.sections import ObservationConfig, RunSettings
from headway.tasks.task import Task
from headway.tasks.teaching import StagedConfig, Students, StudentTrainingConfig, Teaching
from headway.training import LayersConfig, OptimizerConfig, ScheduleConfig

FORMER = {
    "distil": "classification",
    "distil-tag": "tagging",
    "distil-answer": "question_answering",
    "distil-gpt": "language_modeling",
    "distil-encoder": "masked_language_modeling",
}
"""Recipe of an earlier version -> task of its teachers."""


@dataclass(frozen=True, kw_only=True)
class DistilDataConfig:
    """What the students of all tasks are taught on."""

    train: tuple[str, ...] = setting((), "examples, as the teacher was trained on")
    valid: tuple[str, ...] = setting(
        (), "held-out examples; if unset, some of train are kept from training"
    )
    held_out: float = setting(0.1, "share of the examples kept so", gt=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """Shape of the student, where it differs from the teacher's."""

    num_layers: int = setting(2, "blocks", gt=0, le=LAYERS)
    model_dim: int | None = setting(
        None, "width of every layer's input and output; if unset, the teacher's", gt=0, le=WIDTH
    )
    num_heads: int | None = setting(
        None, "attention heads; if unset, as many as the teacher's", gt=0, le=HEADS
    )
    ffn_dim: int | None = setting(
        None,
        "inner width of the feed-forward layers; if unset, the teacher's",
        gt=0,
        le=WIDTH,
    )
    embedding_dim: int | None = setting(
        None,
        "of encoders, width of the embeddings, widened by a matrix: most of a small model is its "
        "words",
        gt=0,
        le=WIDTH,
    )
    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)

    sizes: ClassVar[dict[str, dict[str, Any]]] = {}

    @property
    def shape(self) -> dict[str, int | float | None]:
        """By name, for `student_config`."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class DistilRunConfig(RunSettings):
    """One training run of a student. Of a run whose teacher is known, the sections data,
    distillation, training and evaluation are those of the teacher's task."""

    recipe: str = setting("distil", "name of the recipe this came from")
    data: Any = section(DistilDataConfig)
    model: StudentConfig = section(StudentConfig)
    distillation: LayersConfig = section(StagedConfig)
    training: StudentTrainingConfig = section(StudentTrainingConfig)
    evaluation: Any = section(ObservationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the examples, or from the teacher."""
        name = self.training.task
        return frozenset() if name is None else students_of(name).decided(self)


def distil() -> DistilRunConfig:
    """A small, fast student of a trained model (--teacher RUN), TinyBERT's way.

    The teacher is a classifier, a tagger, a question-answering model, a language model or a text
    encoder; DATA is what such a model is trained on. 2 layers that begin as the teacher's lowest
    and learn what it computes, labels unseen: first its insides, then its outputs; of an encoder,
    its insides alone (the paper's first stage; the second is --teacher CLASSIFIER
    --training.student RUN). --model.num-layers 1 is fastest, --model.embedding-dim 64 smallest. A
    classifier's student can learn from more texts: --data.extra FILE, --data.augment 1. A language
    model's student can be its draft: headway generate TEACHER --draft RUN. headway train distil
    --teacher RUN --help lists the settings for that teacher. Costs and scores: docs/results.md.
    """
    return DistilRunConfig(
        optimizer=OptimizerConfig(lr=5e-4, beta2=0.99, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.0),
    )


def students_of(name: str) -> Students:
    """How students of the models of that task are taught. UsageError if they can have none."""
    taught = task(name) if name in tasks() else None
    if isinstance(taught, Teaching):
        return taught.students
    names = [name for name in tasks() if isinstance(task(name), Teaching)]
    raise UsageError(
        f"training.task={name}: must be one of {', '.join(names)}",
        hint="leave it out: the teacher decides it",
    )


def task_of_teacher(teacher: str | Path) -> Task:
    """The task of the model in that folder. UsageError unless it can have students."""
    taught = task_of_family(family_of(teacher))
    if taught is not None and isinstance(taught, Teaching):
        return taught
    kind = "model" if taught is None else TASKS[taught.name].kind
    kinds = [TASKS[name].kind for name in tasks() if isinstance(task(name), Teaching)]
    raise UsageError(
        f"{teacher} holds {with_article(kind)}, which can have no students",
        hint=f"--teacher RUN, of a {', '.join(kinds[:-1])} or {kinds[-1]}",
    )


def for_teacher(config: DistilRunConfig, settings: Mapping[str, Any]) -> DistilRunConfig:
    """The configuration with the sections of the task of the teacher that `settings` name, by
    dotted key. UsageError if they name none."""
    teacher, start = settings.get("training.teacher"), settings.get("training.start")
    if start is not None:
        raise UsageError(
            f"--from {start}: a student is made from its teacher, which --teacher names",
            hint=f"headway train distil DATA --teacher {teacher or start}",
        )
    if teacher is None:
        raise without_teacher()
    return for_task(config, settings.get("training.task") or task_of_teacher(teacher).name)


def without_teacher() -> UsageError:
    """The error for a run without a teacher."""
    return UsageError(
        "a student needs a teacher, and none is named",
        hint="--teacher RUN; headway train classify TEXTS --from ENCODER makes one",
    )


def for_task(config: DistilRunConfig, name: str) -> DistilRunConfig:
    """The configuration with the sections of that task. UsageError if its models have no
    students."""
    students = students_of(name)
    return replace(
        config,
        data=students.data,
        evaluation=students.evaluation,
        distillation=students.distillation,
        training=replace(students.training, task=name),
    )


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a run.yaml, by dotted key, with the names of today for those of an earlier
    version, which had one recipe for each task and called the teacher the start."""
    if "training.task" in values:
        return dict(values)
    renamed = dict(values)
    renamed["training.task"] = FORMER[str(values["recipe"])]
    renamed["training.teacher"] = renamed.pop("training.start", None)
    renamed["recipe"] = "distil"
    return renamed
