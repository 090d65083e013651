"""Observers, called after each step: averaging of weights, evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from headway.evaluation.scores import Metric, Scores
from headway.training.budget import Budget
from headway.training.state import StepReport, TrainingState, averaged

Evaluator = Callable[[nn.Module], Scores]
"""Computes the scores of a model. The recipe's metric selects the best weights."""


EVALUATING = 0.15
"""Maximum fraction of a time limit that evaluations take, the first and the last one excepted."""


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
class Evaluation:
    """Observer that evaluates the averaged weights and keeps the best.

    metric: name of the metric that selects the best weights. every: number of steps between
    evaluations, or the budget of the run, whose parts they end. keep_best: saves the model; called
    while it has the best weights. patience: number of evaluations without a new best after which
    the run stops; if None, it never stops early.
    """

    evaluator: Evaluator
    metric: str
    every: int | Budget
    keep_best: Callable[[], None]
    patience: int | None = None

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if self._is_due(run):
            self.evaluate(run)

    def catch_up(self, run: TrainingState) -> None:
        """After a resume, do the evaluation that was due at this step but was interrupted."""
        if run.step and self._is_due(run):
            self.evaluate(run)

    def _is_due(self, run: TrainingState) -> bool:
        """Return whether to evaluate after this step.

        A time limit is for training: an evaluation waits until all of them, this one included,
        take no more than `EVALUATING` of the time so far.
        """
        if isinstance(self.every, int):
            return run.step % self.every == 0
        if self.every.parts(run.fraction) <= self.every.parts(run.evaluated_fraction):
            return False
        next_one = run.evaluation_seconds / max(1, run.evaluations)
        is_affordable = run.evaluation_seconds + next_one <= EVALUATING * run.seconds
        return self.every.seconds is None or is_affordable or run.evaluations == 0

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
        run.evaluated, run.evaluated_fraction = run.step, run.fraction
        run.stale = 0 if is_best else run.stale + 1
        if self.patience is not None and run.stale >= self.patience and run.stop is None:
            run.stop = "early stop"
        took = time.perf_counter() - started
        run.evaluations, run.evaluation_seconds = run.evaluations + 1, run.evaluation_seconds + took
        run.emit("valid", **scores.numbers(), is_best=is_best, took=took, seconds=run.seconds)


def _is_best(metric: Metric, run: TrainingState) -> bool:
    """Return whether the value is better than the best so far, or that is of another metric."""
    if run.best is None:
        return True
    return run.metric != metric.name or metric.is_better_than(run.best)
