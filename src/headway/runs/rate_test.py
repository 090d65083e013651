"""The learning-rate range test: a short training whose learning rate rises until the loss diverges.

    lr(f) = lowest * (highest / lowest)^f,   f from 0 to 1 in about 100 updates

Smith 2017, "Cyclical learning rates for training neural networks", section 3.3; Howard and Gugger
2020 (fastai) suggest a rate from the curve of the loss over the logarithm of the rate.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headway.base.errors import UsageError
from headway.base.ranks import ALONE
from headway.base.sharing import Interrupted
from headway.runs.dry_run import EvaluationLimit
from headway.runs.out_of_memory import memory_explained
from headway.runs.recipes import AnyRunConfig
from headway.runs.start import begun
from headway.tasks.registry import task_of_config
from headway.training import (
    Event,
    NonFinite,
    Observer,
    StepReport,
    TrainingState,
    fit,
    graceful_stop,
)
from headway.training.budget import parse_time

BELOW, ABOVE = 1e-3, 1e2
"""The lowest and the highest learning rate of a test, relative to that of the configuration."""

UPDATES, FEWEST = 100, 25
"""Updates of a test, and those of one whose time would not be enough for all."""

LEAST_UPDATES = 10
"""A configuration with fewer updates has no test."""

SECONDS = 120.0
"""Time of a test whose `FEWEST` updates do not take longer."""

DIVERGED = 2.0
"""The loss has diverged where its mean is this many times the lowest one."""

BESIDE = 0.05
"""Part of the updates, before and after an update, over whose losses the mean is taken."""

MARGIN = 1.5
"""The least ratio of the rate of the minimum to a suggested steepest descent."""

FLAT = 0.01
"""A loss that falls by a smaller part has not fallen."""


@dataclass(frozen=True)
class Curve:
    """The outcome of a test. rates, losses: of each update. end: why it ended: "diverged", "done"
    (at the highest rate) or "interrupted"."""

    rates: Sequence[float]
    losses: Sequence[float]
    end: str

    @property
    def means(self) -> list[float]:
        """The mean loss of each update and those beside it, which is not late as a running one."""
        return [
            statistics.fmean(self.losses[max(0, i - self._beside) : i + self._beside + 1])
            for i in range(len(self.losses))
        ]

    @property
    def _beside(self) -> int:
        return max(1, round(BESIDE * len(self.losses)))

    @property
    def noise(self) -> float:
        """The standard deviation of the losses around their means, in the first fifth."""
        first = max(4, len(self.losses) // 5)
        pairs = zip(self.losses[:first], self.means[:first], strict=True)
        return statistics.pstdev([loss - mean for loss, mean in pairs])


@dataclass(frozen=True)
class Suggestion:
    """What a curve says. steepest, minimum: the rates at which the mean loss falls fastest and at
    which it is lowest. rate: the suggested one; None if the loss does not fall. reason: why."""

    rate: float | None
    reason: str
    steepest: float | None = None
    minimum: float | None = None


def suggested(curve: Curve) -> Suggestion:
    """Suggest the learning rate at which the loss falls fastest over the logarithm of the rate.

    Beyond the steepest descent a larger rate gains less, and at the minimum the loss is about to
    rise. A steepest descent within `MARGIN` of the minimum is the edge of a cliff: a tenth of the
    rate of the minimum is suggested then.
    """
    means = np.array(curve.means)
    lowest = int(means.argmin())
    first = float(means[: max(1, len(means) // 10)].mean())
    fallen = first - float(means[lowest])
    if lowest == 0 or fallen < max(curve.noise, FLAT * abs(first)):
        return Suggestion(None, _flat(curve, first, fallen))
    logarithms = np.log10(curve.rates)
    slopes = np.gradient(means, logarithms)[: lowest + 1]
    steepest, minimum = curve.rates[int(slopes.argmin())], curve.rates[lowest]
    is_open = curve.end == "done" and lowest >= len(means) - 1 - max(1, len(means) // 20)
    if is_open:
        reason = (
            f"the loss falls fastest there; it was still falling at {minimum:.1e}, the highest "
            "rate of the test, so it has no minimum and a larger rate may be better"
        )
        return Suggestion(steepest, reason, steepest)
    if steepest * MARGIN <= minimum:
        reason = f"the loss falls fastest there, and is lowest at {minimum:.1e}"
        return Suggestion(steepest, reason, steepest, minimum)
    reason = (
        f"a tenth of {minimum:.1e}, where the loss is lowest; it falls fastest at {steepest:.1e}, "
        "too close to that"
    )
    return Suggestion(minimum / 10, reason, steepest, minimum)


def _flat(curve: Curve, first: float, fallen: float) -> str:
    """Describe a loss without a minimum."""
    end = "where it diverged" if curve.end == "diverged" else "the highest of the test"
    return (
        f"the loss did not fall at any rate from {curve.rates[0]:.1e} to {curve.rates[-1]:.1e}, "
        f"{end}: it began at {first:.3g} and fell by {max(0.0, fallen):.2g}, beside a noise of "
        f"{curve.noise:.2g} between updates; a larger batch has less noise"
    )


@dataclass
class RisingRate:
    """Observer that raises the learning rate after each update, and ends the test.

    lowest, highest: the range. updates: their number, if they take no more than `seconds`; slower
    ones raise the rate faster, so that there are at least `FEWEST`.
    """

    lowest: float
    highest: float
    updates: int = UPDATES
    seconds: float = SECONDS
    fraction: float = 0.0
    rates: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def rate(self, step: int) -> float:
        """Return the rate of the next update."""
        return float(self.lowest * (self.highest / self.lowest) ** self.fraction)

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        self.rates.append(report.lr)
        self.losses.append(report.loss)
        least, most = 1 / (self.updates - 1), 1 / (min(self.updates, FEWEST) - 1)
        self.fraction += max(least, min(report.seconds / self.seconds, most))
        run.fraction = min(1.0, self.fraction)
        if self._is_diverged():
            run.stop = "diverged"
        elif self.fraction > 1 + 1e-6:
            run.stop = "done"

    def _is_diverged(self) -> bool:
        means = Curve(self.rates, self.losses, "").means
        recent = statistics.fmean(self.losses[-max(1, round(BESIDE * self.updates)) :])
        return len(means) > LEAST_UPDATES // 2 and recent > DIVERGED * min(means)


@dataclass(frozen=True)
class RangeTest:
    """A range test. config: the configuration that was trained, with all that the data, the machine
    and the time limit have decided."""

    config: AnyRunConfig
    curve: Curve


def range_test(
    config: AnyRunConfig,
    folder: Path,
    *,
    listeners: Sequence[Callable[[Event], None]] = (),
    observers: Sequence[Observer] = (),
) -> RangeTest:
    """Train a new model of the configuration in `folder` with a rising learning rate.

    `folder` is a new, temporary one, in which the data are prepared; nothing else is saved. The
    model, its batches and its optimizer are those of the run. The test has `UPDATES` updates and
    takes about `SECONDS`, or the steps and the time of the configuration if these are less.
    UsageError for a configuration with fewer than `LEAST_UPDATES`.
    """
    task = task_of_config(config)
    task.check(config)
    folder.mkdir()
    with memory_explained(folder), graceful_stop() as request:

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)
            if request:
                raise Interrupted

        start = begun(task, config, folder, (), emit, EvaluationLimit(request, 0), ALONE)
        if start is None:
            return RangeTest(config, Curve((), (), "interrupted"))
        job, machine, run = start.resolved.job, start.resolved.machine, start.run
        training, usual = job.config.training, job.config.optimizer.lr
        if training.steps < LEAST_UPDATES:
            raise UsageError(
                f"training.steps={training.steps}: a learning-rate test needs at least "
                f"{LEAST_UPDATES} updates",
                hint=f"leave out --steps, or set {UPDATES}",
            )
        limit = parse_time(training.time) if training.time else SECONDS
        rising = RisingRate(
            BELOW * usual, ABOVE * usual, min(UPDATES, training.steps), min(limit, SECONDS)
        )
        learning = [job.objective] if isinstance(job.objective, Observer) else []
        try:
            fit(
                run,
                job.batches.stream(0, 0),
                job.objective,
                [*learning, rising, *observers],
                steps=rising.updates,
                learning_rate=rising.rate,
                accumulate=job.accumulate,
                clip=training.clip,
                precision=machine.precision,
                request=request,
            )
        except NonFinite:
            run.stop = "diverged"
        return RangeTest(job.config, Curve(rising.rates, rising.losses, run.stop or "done"))
