"""Configuration of a distillation run, and the recipe. The teacher's task decides its sections."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from headway.base.errors import UsageError
from headway.base.settings import (
    HEADS,
    LAYERS,
    WIDTH,
    count,
    fields_of,
    flat,
    fraction,
    override,
    section,
    setting,
)
from headway.tasks.opening import family_of, with_article
from headway.tasks.registry import TASKS, task, task_of_family, tasks
from headway.tasks.sections import (
    ExamplesConfig,
    RunSettings,
    StudentTrainingConfig,
    TextDataConfig,
    TwoStageConfig,
)
from headway.tasks.task import AnyTask, Teaches
from headway.training import LayersConfig, OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """The shape of the student, where it differs from the teacher's."""

    num_layers: int = count(2, "number of blocks", LAYERS)
    model_dim: int | None = count(
        None, "width of every layer's input and output; if unset, the teacher's", WIDTH
    )
    num_heads: int | None = count(
        None, "number of attention heads; if unset, as many as the teacher has", HEADS
    )
    ffn_dim: int | None = count(
        None,
        "inner width of the feed-forward layers; if unset, the teacher's ratio to model_dim",
        WIDTH,
    )
    embedding_dim: int | None = count(
        None,
        "width of an encoder's token embeddings, which a matrix projects to model_dim: embeddings "
        "hold most parameters of a small model; if unset, the teacher's",
        WIDTH,
    )
    dropout: float = fraction(0.1, "dropout probability of activations")

    sizes: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    @property
    def shape(self) -> dict[str, int | float | None]:
        """The settings by name, for `student_config`."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class DistilRunConfig(RunSettings):
    """Configuration of a distillation run.

    If the teacher is known, the sections data, distillation, training and evaluation are those that
    its task declares.
    """

    recipe: str = setting("distil", "name of the recipe that these settings extend")
    data: ExamplesConfig | TextDataConfig = section(ExamplesConfig)
    model: StudentConfig = section(StudentConfig)
    distillation: LayersConfig = section(TwoStageConfig)
    training: StudentTrainingConfig = section(StudentTrainingConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """The dotted keys of the settings that the examples or the teacher decide."""
        if self.training.task is None:
            return frozenset()
        decided = teaches_of(self.training.task).decided
        is_open = getattr(self.evaluation, "metric", "") is None
        return decided | {"evaluation.metric"} if is_open else decided


def distil() -> DistilRunConfig:
    """A small, fast student of a trained model (--teacher RUN).

    The teacher is a classifier, a tagger, a question-answering model, a language model or a text
    encoder; DATA are training examples of such a model. The student has 2 layers, initialised from
    the teacher's lowest, and is trained without labels to reproduce the teacher's outputs;
    --distillation.first-stage 0.5 reproduces its hidden layers first, as TinyBERT does. The student
    of an encoder reproduces hidden layers only (the paper's first stage; the second is --teacher
    CLASSIFIER --training.student RUN). --model.num-layers 1 is fastest, --model.embedding-dim 64
    smallest. The student of a classifier can be trained on more texts: --data.extra FILE,
    --data.augment 1. The student of a language model can be the draft model of speculative
    decoding: headway generate TEACHER --draft RUN. headway train distil --teacher RUN --help lists
    the settings for that teacher. Costs and scores: docs/results.md.
    """
    return DistilRunConfig(
        optimizer=OptimizerConfig(lr=5e-4, beta2=0.99, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(final=0.0),
    )


def tasks_of_teachers() -> list[str]:
    """Return the names of the tasks whose models can be teachers."""
    return [name for name in tasks() if task(name).teaches is not None]


def teaches_of(name: str) -> Teaches[Any, Any]:
    """Return how students of that task's models are configured and trained.

    Raises UsageError if its models cannot be teachers.
    """
    teaches = task(name).teaches if name in tasks() else None
    if teaches is not None:
        return teaches
    names = tasks_of_teachers()
    raise UsageError(
        f"training.task={name}: must be one of {', '.join(names)}",
        hint="leave training.task unset: the teacher decides it",
    )


def task_of_teacher(teacher: str | Path) -> AnyTask:
    """Return the task of the model in that folder. Raises UsageError if it cannot be a teacher."""
    teaching = task_of_family(family_of(teacher))
    if teaching is not None and teaching.teaches is not None:
        return teaching
    kind = "model" if teaching is None else TASKS[teaching.name].kind
    kinds = [TASKS[name].kind for name in tasks_of_teachers()]
    raise UsageError(
        f"{teacher} holds {with_article(kind)}, which cannot be a teacher",
        hint=f"--teacher RUN, a run of a {', '.join(kinds[:-1])} or {kinds[-1]}",
    )


def for_teacher(config: DistilRunConfig, settings: Mapping[str, object]) -> DistilRunConfig:
    """Return the configuration with the sections of the teacher's task.

    settings: values by dotted key, of which `training.teacher` names the teacher. Raises UsageError
    if it is missing, or if `training.start` is set.
    """
    teacher, start = settings.get("training.teacher"), settings.get("training.start")
    if start is not None:
        raise UsageError(
            f"--from {start}: distil takes no --from, the teacher is named by --teacher",
            hint=f"headway train distil DATA --teacher {teacher or start}",
        )
    if teacher is None:
        raise without_teacher()
    return for_task(
        config, str(settings.get("training.task") or task_of_teacher(str(teacher)).name)
    )


def without_teacher() -> UsageError:
    """Return the error for a run without a teacher."""
    return UsageError(
        "distillation needs a teacher, and none is named",
        hint="--teacher RUN; headway train classify TEXTS --from ENCODER trains one",
    )


def for_task(config: DistilRunConfig, name: str) -> DistilRunConfig:
    """Return the configuration with the sections of that task.

    Raises UsageError if its models cannot be teachers.
    """
    teaches = teaches_of(name)
    return replace(
        config,
        data=teaches.data,
        evaluation=teaches.evaluation,
        distillation=teaches.distillation,
        training=replace(teaches.training, task=name),
    )


def run_of_task(config: DistilRunConfig) -> RunSettings:
    """Return the configuration of a run of the teacher's task on the same examples.

    It starts from the teacher. Its data and training have the settings of the student's run that
    they know.
    """
    name = str(config.training.task)
    run, known = task(name).config(), ["training."]
    for section_name in ("data", "evaluation"):
        same = getattr(config, section_name)
        if isinstance(same, type(getattr(run, section_name))):
            run = replace(run, **{section_name: same})
        elif section_name == "data":
            known.append("data.")
    keys = fields_of(run)
    shared = {
        key: value
        for key, value in flat(config).items()
        if key in keys and key.startswith(tuple(known))
    }
    settings = {"recipe": config.recipe, "training.start": config.training.teacher}
    further = teaches_of(name).settings(config)
    changed: RunSettings = override(run, {**shared, **settings, **further}, "the student's run")
    return changed


def kinds_of_students() -> list[DistilRunConfig]:
    """Return one configuration for each task whose models can be teachers."""
    return [for_task(distil(), name) for name in tasks_of_teachers()]


def next_commands(config: DistilRunConfig) -> Sequence[str]:
    """Return the commands of the teacher's task, or those that it declares for students."""
    name = str(config.training.task)
    commands = teaches_of(name).next_commands
    return task(name).next_commands if commands is None else commands
