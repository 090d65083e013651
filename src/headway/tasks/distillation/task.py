"""The task of distillation: the job that trains a smaller model of the teacher's kind.

Jiao et al. 2020 (TinyBERT), section 3; Sanh et al. 2019 (initialisation of the student).
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import flat, override
from headway.base.sharing import Share
from headway.blocks.hidden_states import layer_map, record_blocks, stack_of
from headway.bundle import Bundle
from headway.evaluation.scores import Scores
from headway.models import backbone_of, parameter_count, student_config, student_of, with_backbone
from headway.tasks.distillation.config import (
    DistilRunConfig,
    distil,
    for_teacher,
    kinds_of_students,
    next_commands,
    run_of_task,
    task_of_teacher,
    teaches_of,
    without_teacher,
)
from headway.tasks.distillation.data import (
    Compared,
    ComparedBatches,
    TaskExamples,
    held_out_examples,
    read_examples,
    weights_of,
    with_weights,
)
from headway.tasks.job import AnyJob, Emit, Job, Summary
from headway.tasks.opening import load
from headway.tasks.registry import task
from headway.tasks.sections import TwoStageConfig
from headway.tasks.task import NO_OPTIONS, Derives, NoOptions, Task
from headway.training import DistillationBatch, DistillationObjective, DistillationStudent

DistilJob = Job[DistillationBatch, Compared, NoOptions]


def _held_out(
    config: DistilRunConfig, examples: AnyJob, objective: DistillationObjective, machine: Machine
) -> Compared:
    """Return the held-out examples of the task, or batches to compare with the teacher."""
    name = str(config.training.task)
    compared = teaches_of(name).compared
    if compared is None:
        return TaskExamples(
            task=task(name), examples=examples.held_out, options=examples.evaluation
        )
    return ComparedBatches(
        objective=objective,
        batches=partial(compared, examples, machine),
        weights=weights_of(config.distillation, inside=False),
    )


def distillation_job(
    config: DistilRunConfig, examples: AnyJob, teacher: Bundle, machine: Machine
) -> DistilJob:
    """Return the job that trains a student to reproduce a teacher.

    examples: a job of the teacher's task, whose batches, views and held-out examples are used;
    labels are used for the scores only.
    """
    fitted = flat(examples.config)
    decided = {key: fitted[key] for key in config.decided_by_data}
    config = override(config, decided, "the teacher")
    training = config.training
    model: nn.Module = teacher.model.to(machine.device).eval()
    if examples.views is None:
        raise ValueError(
            f"the jobs of the task {training.task} have no views, so it has no teachers"
        )
    objective = DistillationObjective(model, examples.views)
    held_out = _held_out(config, examples, objective, machine)

    def build() -> DistillationStudent:
        student = _initial(config, model)
        if training.student:
            student = _earlier(training.student, teacher)
        _check_pair(student, model, config)
        return DistillationStudent(student, _width(student), _width(model))

    def bundle(student: DistillationStudent) -> Bundle:
        return examples.bundle(student.student)

    def baseline(progress: Callable[[int], None]) -> str | None:
        """Evaluate the teacher, if its score can be compared with that of a student."""
        if not isinstance(held_out, TaskExamples):
            return None
        metric = str(flat(config)["evaluation.metric"])
        with machine.precision():
            score = held_out.scores(examples.bundle(model), Share(progress))[metric]
        name = metric.replace("_", " ")
        return f"the teacher's {name} on the held-out examples: {score:.4f}"

    return Job(
        config=config,
        build=build,
        batches=with_weights(examples.batches, config),
        objective=objective,
        held_out=held_out,
        evaluation=NO_OPTIONS,
        bundle=bundle,
        summary=Summary(
            model=_described(model),
            batches=examples.summary.batches,
            unit=teaches_of(str(training.task)).unit,
        ),
        example=examples.example,
        baseline=baseline,
        evaluated=bundle if isinstance(held_out, TaskExamples) else lambda student: student,
    )


def _described(teacher: nn.Module) -> str:
    body, millions = backbone_of(teacher).config, parameter_count(teacher) / 1e6
    return (
        f"a student of a teacher of {body.num_layers} layers, d={body.model_dim}, "
        f"{millions:.1f} M parameters"
    )


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
    if _fingerprint(earlier) != _fingerprint(teacher):
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


def _fingerprint(bundle: Bundle) -> str:
    """Return the fingerprint of the tokenizer, which a bundle or its reader has."""
    return str(attrgetter("tokenizer.fingerprint")(getattr(bundle, "reader", bundle)))


def _check_pair(student: nn.Module, teacher: nn.Module, config: DistilRunConfig) -> None:
    """Raise UsageError if hidden layers or attention of student and teacher cannot be compared."""
    student_stack, teacher_stack = stack_of(student), stack_of(teacher)
    weights = weights_of(config.distillation, inside=True)
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
    teaches = teaches_of(training.task)
    if type(config.data) is not type(teaches.data):  # made for the teacher of another task
        raise UsageError(
            f"training.task={training.task} is not the task of the teacher",
            hint="leave training.task unset: the teacher decides it",
        )
    if not config.data.train:
        raise UsageError(
            "no training examples are named",
            hint=f"headway train distil FILE --teacher {training.teacher}",
        )
    task(training.task).check(run_of_task(config))
    teaches.check(config)
    prediction = weights.prediction if isinstance(weights, TwoStageConfig) else 0.0
    compares_hidden_layers = weights_of(weights, inside=True).compares_hidden_layers
    if not compares_hidden_layers and not prediction:
        raise UsageError(
            "all weights of the distillation loss are 0",
            hint="set at least one of the weights of --distillation above 0",
        )
    if (
        isinstance(weights, TwoStageConfig)
        and weights.first_stage
        and not (compares_hidden_layers and prediction)
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


def prepare(config: DistilRunConfig, folder: Path, machine: Machine, emit: Emit) -> DistilJob:
    """Load the teacher, and prepare the examples with its reader."""
    training = config.training
    teaching = task_of_teacher(str(training.teacher))
    if teaching.name != training.task:
        raise UsageError(
            f"--teacher {training.teacher} is a model of the task {teaching.name}, but this run "
            f"needs a teacher of the task {training.task}",
            hint="--run OTHERNAME for a new run",
        )
    teacher = load(str(training.teacher), "cpu")
    teacher.model.to(machine.device)
    job = teaches_of(teaching.name).job
    examples = job(run_of_task(config), teacher, folder, machine, emit)
    return distillation_job(config, examples, teacher, machine)


def evaluate(student: object, examples: Compared, options: NoOptions, share: Share) -> Scores:
    """Evaluate a student as its teacher's task does, or by its difference from the teacher."""
    return examples.scores(student, share)


DISTILLATION = Task(
    name="distillation",
    config=DistilRunConfig,
    recipes={"distil": distil},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    derives=Derives(configure=for_teacher, variants=kinds_of_students, next_commands=next_commands),
    next_commands=("eval {run}",),
)
