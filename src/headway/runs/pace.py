"""How many updates a time limit buys, measured before training; the size and batch that suit it.

A large model learns more from an update than a small one, and a small one makes more updates in the
same time. So where a time limit buys few of a recipe's model, a smaller size is trained, one that
the recipe names in `training.sizes` (docs/log/results.md, "The size that a time limit buys").

Small models learn more from many small updates than from a few large ones. In 150 seconds of one
thread, a translator reached chrF 1.7 by 86 updates of 4,096 tokens and 14.7 by 293 of 1,024. So
where a time limit allows few updates, the batch shrinks before anything else does. Enough updates
are enough: in 220 seconds of two threads, 1,034 updates of 1,024 tokens reached BLEU 16.8, and
2,052 of 512 tokens 12.2 (docs/log/results.md, "Five minutes").
"""

import math
import statistics
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import torch
from torch import nn

from headway.base.devices import Machine, prepare
from headway.base.ranks import ALONE, Ranks
from headway.base.settings import flat, override
from headway.runs.memory import fitted_to_memory, ignore, prepared_job
from headway.runs.recipes import AnyRunConfig, shape_settings, sized
from headway.tasks.job import AnyJob, Emit
from headway.tasks.registry import task_of_config
from headway.tasks.sections import batch_setting
from headway.tasks.task import AnyTask
from headway.training import (
    EVALUATING,
    Observer,
    StepReport,
    TrainingState,
    WeightAverage,
    fit,
    optimizer,
)
from headway.training.budget import parse_time
from headway.transforms import fast, float8

HALVINGS = 2
"""Maximum number of times that the batch size is halved."""

ENOUGH_UPDATES = 2000
ENOUGH_EPOCHS = 15.0
"""The recipe's model is trained if the time buys this number of updates with the recipe's batch, or
of passes over the data; otherwise a smaller one."""

WORTHWHILE = 1.4
"""A smaller model, or half the batch, must allow this many times the updates: a small step on a GPU
or on a busy machine takes as long as a large one."""

TRIAL_SECONDS = 4.0
"""Steps are measured until they have taken this time, or until there are `TRIAL_STEPS`."""

TRIAL_STEPS = 4
GPU_TRIAL_STEPS = 60
"""A GPU loads kernels in the first steps, and for every new shape."""

FEW_UPDATES = 300
"""Fewer updates leave a model that is trained from scratch, or has a new head, nearly untrained."""


@dataclass(frozen=True)
class Pace:
    """The measured speed of a run with a time limit.

    step_seconds: duration of a step. updates: the number of updates of the run. epochs: the number
    of passes over the data that they are. is_limited_by_time: whether the steps of the run would
    take longer. size: why the model has another size than the recipe's, "" if it has not.
    """

    step_seconds: float
    updates: int
    epochs: float
    is_limited_by_time: bool
    size: str = ""

    @property
    def is_enough(self) -> bool:
        """Whether a model of this pace is trained, rather than a smaller one."""
        return (
            not self.is_limited_by_time
            or self.updates >= ENOUGH_UPDATES
            or self.epochs >= ENOUGH_EPOCHS
        )

    def describe(self, limit: str) -> str:
        """Describe what the time buys, for the terminal."""
        text = f"{limit} is enough for about {self.updates:,} updates, {self.epochs:.2g} epochs"
        text += self.size and f"; {self.size}"
        if self.updates >= FEW_UPDATES or not self.is_limited_by_time:
            return text
        return (
            f"{text}: too little for a good model; set a longer --time, or a smaller --model or "
            "model.num-layers"
        )


def bought(config: AnyRunConfig, folder: Path) -> list[str]:
    """Describe what the time limit of a run is enough for, and the size that is chosen for it.

    folder: where the data are prepared, or are already. Nothing without a time limit, or for an
    objective that cannot be measured.
    """
    if not config.training.time:
        return []
    machine, task = prepare(config.machine), task_of_config(config)
    _, pace = fitted_to_time(task, config, folder, machine, ignore)
    return [] if pace is None else [pace.describe(config.training.time)]


def fitted_to_time(
    task: AnyTask, config: AnyRunConfig, folder: Path, machine: Machine, emit: Emit
) -> tuple[AnyJob, Pace | None]:
    """Prepare the job of a run with a time limit, and measure its pace.

    The size of the model is chosen first. Then the batch size is halved until the time allows
    `training.updates` updates, or until half of it takes as long, as small batches on a GPU do. An
    objective that learns from the batches it is given is not measured: the pace is None.
    """
    job = prepared_job(task, config, folder, machine, emit)
    model = untrained(job, machine).model
    job = fitted_to_memory(task, config, job, model, machine, folder, emit)
    config = replace(config, machine=job.config.machine)
    if isinstance(job.objective, Observer):
        return job, None
    config, job, pace = _with_size(task, config, job, folder, machine)
    key = batch_setting(config)
    for _ in range(0 if key is None else HALVINGS):
        size = attrgetter(str(key))(job.config)
        is_enough = pace.updates >= min(config.training.updates, job.config.training.steps)
        if is_enough or size < 2:
            break
        parts = math.gcd(job.config.machine.micro_batches, size // 2)
        changes = {str(key): size // 2, "machine.micro_batches": parts}
        config = override(config, changes, "the time limit")
        smaller = prepared_job(task, config, folder, machine, ignore)
        smaller_pace = measured(smaller, machine)
        if smaller_pace.updates < WORTHWHILE * pace.updates:
            break
        job, pace = smaller, replace(smaller_pace, size=pace.size)
    return job, pace


def _with_size(
    task: AnyTask, config: AnyRunConfig, job: AnyJob, folder: Path, machine: Machine
) -> tuple[AnyRunConfig, AnyJob, Pace]:
    """Choose the first size of the model that the time limit is enough for: the recipe's, or one of
    `training.sizes`. If it is enough for none, it is the last one that makes more updates.

    Returns the configuration and the job with that size, and its pace.
    """
    recipe, whole = config, measured(job, machine)
    pace = whole
    for name in config.training.sizes if shape_settings(config) else ():
        if pace.is_enough:
            break
        smaller_config = sized(recipe, name, "the time limit")
        smaller = prepared_job(task, smaller_config, folder, machine, ignore)
        smaller_pace = measured(smaller, machine)
        if smaller_pace.updates < WORTHWHILE * pace.updates:
            break
        config, job = smaller_config, smaller
        pace = replace(smaller_pace, size=_reason(recipe, name, whole, smaller_pace))
    return config, job, pace


def _reason(recipe: AnyRunConfig, name: str, whole: Pace, pace: Pace) -> str:
    """Describe why a model has the size of that name, not the recipe's, and how it would keep it.

    whole: the pace of the recipe's model.
    """
    values, sizes = flat(recipe.model), type(recipe.model).sizes
    same = (size for size, shape in sizes.items() if shape.items() <= values.items())
    kept = next((f"--model {size}" for size in same), None)
    if kept is None:
        key = next(iter(sizes[name]))
        kept = f"--model.{key.replace('_', '-')} {values[key]}"
    limit = recipe.training.time
    return (
        f"the model is {name}, because {limit} buys {whole.epochs:.2g} epochs of the "
        f"recipe's and {pace.epochs:.2g} of {name}; {kept} keeps the recipe's"
    )


def measured(job: AnyJob, machine: Machine) -> Pace:
    """Measure some steps on a copy of the untrained model, and estimate those of the time limit."""
    training = job.config.training
    step_seconds = _step_seconds(job, machine)
    by_time = int((1 - EVALUATING) * parse_time(training.time) / step_seconds)
    updates = max(1, min(training.steps, by_time))
    epochs = updates * job.accumulate / job.batches.batches_per_epoch
    return Pace(step_seconds, updates, epochs, is_limited_by_time=by_time < training.steps)


@dataclass
class _Trial:
    """Observer that ends a trial and keeps the durations of its steps."""

    seconds: list[float] = field(default_factory=list)

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        self.seconds.append(report.seconds)
        if sum(self.seconds) > TRIAL_SECONDS:
            run.stop = "trial"


def _step_seconds(job: AnyJob, machine: Machine) -> float:
    """Return the duration of a step: the median of those in the second half of a trial."""
    training, trial = job.config.training, _Trial()
    fit(
        untrained(job, machine),
        job.batches.stream(0, 0),
        job.objective,
        [trial],
        steps=TRIAL_STEPS if machine.device == "cpu" else GPU_TRIAL_STEPS,
        accumulate=job.accumulate,
        clip=training.clip,
        precision=machine.precision,
    )
    return statistics.median(trial.seconds[len(trial.seconds) // 2 :])


def untrained(job: AnyJob, machine: Machine) -> TrainingState:
    """Return the state of a run before its first step."""
    training = job.config.training
    torch.manual_seed(training.seed)
    model = job.build().to(machine.device)
    if job.config.machine.fast:
        fast(model)
    if machine.dtype == "float8":
        float8(model)
    return state_of(model, job)


def state_of(model: nn.Module, job: AnyJob, ranks: Ranks = ALONE) -> TrainingState:
    """Return the state of a run before its first step, of a finished model.

    ranks: the processes that train it together.
    """
    rate = job.config.training.average
    average = WeightAverage(model, rate) if rate else None
    return TrainingState(model, optimizer(model, job.config.optimizer, ranks), average)
