"""How many updates a time limit buys, measured before training; and the batch size that suits it.

Small models learn more from many small updates than from a few large ones. In 150 seconds of one
thread, a translator reached chrF 1.7 by 86 updates of 4,096 tokens and 14.7 by 293 of 1,024. So
where a time limit allows few updates, the batch shrinks before anything else does. Enough updates
are enough: in 220 seconds of two threads, 1,034 updates of 1,024 tokens reached BLEU 16.8, and
2,052 of 512 tokens 12.2 (docs/log/results.md, "Five minutes").
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import torch

from headway.base.devices import Machine, prepare
from headway.base.settings import Configuration, flat, override
from headway.runs.memory import fitted_to_memory, ignore, prepared_job
from headway.runs.recipes import AnyRunConfig, with_settings
from headway.tasks.job import AnyJob, Emit
from headway.tasks.registry import task_of_config
from headway.tasks.sections import batch_setting, parse_time
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
from headway.transforms import fast, float8

HALVINGS = 2
"""Maximum number of times that the batch size is halved."""

SIZES = 4
"""Maximum number of sizes of a model that are measured for a suggestion."""

WORTHWHILE = 1.4
"""Half the batch must allow this many times the updates: a step of a small batch on a busy machine
takes as long as one of twice its size."""

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
    take longer.
    """

    step_seconds: float
    updates: int
    epochs: float
    is_limited_by_time: bool

    def describe(self, limit: str) -> str:
        """Describe what the time buys, for the terminal."""
        text = f"{limit} is enough for about {self.updates:,} updates, {self.epochs:.2g} epochs"
        if self.updates >= FEW_UPDATES or not self.is_limited_by_time:
            return text
        return (
            f"{text}: too little for a good model; set a longer --time, or a smaller --model or "
            "model.num-layers"
        )


def bought(config: AnyRunConfig, folder: Path) -> list[str]:
    """Describe what the time limit of a run is enough for, and a smaller model that it suits.

    folder: where the data are prepared, or are already. Nothing without a time limit, or for an
    objective that cannot be measured.
    """
    if not config.training.time:
        return []
    machine, task = prepare(config.machine), task_of_config(config)
    fitted, pace = fitted_to_time(task, config, folder, machine, ignore)
    if pace is None:
        return []
    lines = [pace.describe(config.training.time)]
    if pace.updates < min(config.training.updates, fitted.config.training.steps):
        suggested = suggested_size(task, fitted.config, folder, machine)
        if suggested is not None:
            size, other = suggested
            lines.append(
                f"--model {size}: about {other.updates:,} updates, {other.epochs:.2g} epochs"
            )
    return lines


def fitted_to_time(
    task: AnyTask, config: AnyRunConfig, folder: Path, machine: Machine, emit: Emit
) -> tuple[AnyJob, Pace | None]:
    """Prepare the job of a run with a time limit, and measure its pace.

    The batch size is halved until the time allows `training.updates` updates, or until half of it
    takes as long, as small batches on a GPU do. An objective that learns from the batches it is
    given is not measured: the pace is None.
    """
    job = prepared_job(task, config, folder, machine, emit)
    model = untrained(job, machine).model
    job = fitted_to_memory(task, config, job, model, machine, folder, emit)
    config = replace(config, machine=job.config.machine)
    if isinstance(job.objective, Observer):
        return job, None
    pace = measured(job, machine)
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
        job, pace = smaller, smaller_pace
    return job, pace


def suggested_size(
    task: AnyTask, config: AnyRunConfig, folder: Path, machine: Machine
) -> tuple[str, Pace] | None:
    """Return the largest named size of the model that a time limit is enough for, and its pace.

    It is smaller than that of the configuration. None if there is none.
    """
    sized = {
        name: with_settings(config, ("the size", {"model.size": name}))
        for name in type(config.model).sizes
    }
    work = {name: work_of(other.model) for name, other in sized.items()}
    smaller = [name for name in sized if work[name] < work_of(config.model)]
    for name in sorted(smaller, key=work.__getitem__, reverse=True)[:SIZES]:
        pace = measured(prepared_job(task, sized[name], folder, machine, ignore), machine)
        if pace.updates >= sized[name].training.updates:
            return name, pace
    return None


def work_of(model: Configuration) -> int:
    """Return a number that grows with the operations of a model: the sum of width^2 layers."""

    def values(ending: str) -> list[int]:
        fields = flat(model).items()
        return [value for key, value in fields if key.endswith(ending) and isinstance(value, int)]

    return max(values("model_dim"), default=0) ** 2 * sum(values("layers"))


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
    average = WeightAverage(model, training.average) if training.average else None
    return TrainingState(model, optimizer(model, job.config.optimizer), average)
