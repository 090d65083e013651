"""What happens after a step besides learning: averaging, evaluation, the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from torch import nn

from headway.evaluation.scores import Metric, Scores
from headway.training.state import StepReport, TrainingState

Evaluator = Callable[[nn.Module], Scores]
"""The scores of a model; the metric that the recipe chose says which weights are best."""


class Interrupted(Exception):
    """Raised by an evaluator that was asked to stop half-way: its numbers do not exist.

    stop: why the run ends (`TrainingState.stop`).
    """

    def __init__(self, stop: str = "interrupted") -> None:
        super().__init__(stop)
        self.stop = stop


@dataclass
class Averaging:
    """Keeps the running average of the weights up to date."""

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.average is not None:
            run.average.update(run.model, run.step)


@dataclass
class TimeLimit:
    """Stops the run after so many seconds of training, all resumes together."""

    seconds: float

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.seconds >= self.seconds and run.stop is None:
            run.stop = "time"


@dataclass
class Evaluation:
    """Evaluates the averaged weights every so many steps and at the end; keeps the best.

    metric: the one that the best weights have the best value of. keep_best: called with the weights
    in place. patience: stop after so many evaluations without a new best, None for never.
    """

    evaluator: Evaluator
    metric: str
    every: int
    keep_best: Callable[[], None]
    patience: int | None = None

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.step % self.every == 0:
            self.evaluate(run)

    def catch_up(self, run: TrainingState) -> None:
        """After a resume: the evaluation that was due at this step but cut short."""
        if run.step and run.step % self.every == 0:
            self.evaluate(run)

    def evaluate(self, run: TrainingState) -> None:
        """Once for each step, however often it is asked."""
        if run.evaluated == run.step:
            return
        started = time.perf_counter()
        run.model.eval()
        averaged = nullcontext() if run.average is None else run.average.applied(run.model)
        with averaged:
            try:
                scores = self.evaluator(run.model)
            except Interrupted as interrupted:
                run.stop = interrupted.stop
                return
            metric = scores.metric(self.metric)
            is_best = _is_best(metric, run)
            if is_best:
                run.best, run.best_step, run.metric = metric.value, run.step, metric.name
                self.keep_best()
        run.evaluated = run.step
        run.stale = 0 if is_best else run.stale + 1
        if self.patience is not None and run.stale >= self.patience and run.stop is None:
            run.stop = "early stop"
        took = time.perf_counter() - started
        run.emit("valid", **scores.numbers(), is_best=is_best, took=took, seconds=run.seconds)


def _is_best(metric: Metric, run: TrainingState) -> bool:
    """Whether the value is better than the best of the run so far, if that is of this metric."""
    if run.best is None:
        return True
    if run.metric is None:  # of an earlier version, which negated what is better where lower
        run.best, run.metric = run.best if metric.higher_is_better else -run.best, metric.name
    return run.metric != metric.name or metric.is_better_than(run.best)
