"""Observers, called after each step: averaging of weights, evaluation, time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from headway.evaluation.scores import Metric, Scores
from headway.training.state import StepReport, TrainingState, averaged

Evaluator = Callable[[nn.Module], Scores]
"""Computes the scores of a model. The recipe's metric selects the best weights."""


class Interrupted(Exception):
    """Raised by an evaluator that was interrupted and has no scores.

    stop: the reason why the run ends (`TrainingState.stop`).
    """

    def __init__(self, stop: str = "interrupted") -> None:
        super().__init__(stop)
        self.stop = stop


@dataclass
class Averaging:
    """Observer that updates the running average of the weights."""

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.average is not None:
            run.average.update(run.model, run.step)


@dataclass
class TimeLimit:
    """Observer that stops the run after `seconds` of training, summed over all resumes."""

    seconds: float

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.seconds >= self.seconds and run.stop is None:
            run.stop = "time"


@dataclass
class Evaluation:
    """Observer that evaluates the averaged weights every `every` steps and keeps the best.

    metric: name of the metric that selects the best weights. keep_best: saves the model; called
    while it has the best weights. patience: number of evaluations without a new best after which
    the run stops; if None, it never stops early.
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
        """After a resume, do the evaluation that was due at this step but was interrupted."""
        if run.step and run.step % self.every == 0:
            self.evaluate(run)

    def evaluate(self, run: TrainingState) -> None:
        """Evaluate now. A second call at the same step does nothing."""
        if run.evaluated == run.step:
            return
        started = time.perf_counter()
        run.model.eval()
        with averaged(run):
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
    """Return whether the value is better than the best so far, or that is of another metric."""
    if run.best is None:
        return True
    if run.metric is None:  # an earlier version, which negated metrics that are better if lower
        run.best, run.metric = run.best if metric.higher_is_better else -run.best, metric.name
    return run.metric != metric.name or metric.is_better_than(run.best)
