"""Observers, called after each step: averaging of weights, evaluation, glimpses of a model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from headway.base.sharing import Interrupted
from headway.evaluation.scores import Metric, Scores
from headway.training.budget import Budget
from headway.training.state import StepReport, TrainingState, averaged

Evaluator = Callable[[nn.Module], Scores]
"""Computes the scores of a model. The recipe's metric selects the best weights."""


EVALUATING = 0.15
"""Maximum fraction of a time limit that evaluations take, the first and the last one excepted."""


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
    evaluations, or the budget of the run, whose parts they end. keep_best: saves the model,
    which has the best weights. patience: number of evaluations without a new best after which
    the run stops; if None, it never stops early.
    """

    evaluator: Evaluator
    metric: str
    every: int | Budget
    keep_best: Callable[[nn.Module], None]
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
        with averaged(run) as model:
            try:
                scores = self.evaluator(model)
            except Interrupted as interrupted:
                run.stop = interrupted.stop
                return
            metric = scores.metric(self.metric)
            is_best = _is_best(metric, run)
            if is_best:
                run.best, run.best_step, run.metric = metric.value, run.step, metric.name
                self.keep_best(model)
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


GLIMPSES = 40
"""Number of log-spaced glimpses of a run."""

GLIMPSING = 0.015
"""Maximum fraction of the time of a run that its glimpses take, if `FEWEST` fit in."""

FEWEST = 8
"""Every evaluation takes a glimpse until there is this number of them."""

EARLY = 1 / 500
"""Fraction of a budget above which the distance of glimpses grows in proportion to the fraction."""


@dataclass
class Glimpses:
    """Observer that looks at the model before training and at log-spaced fractions of the budget.

    Where few of these are affordable, it also looks after an evaluation. A model changes most in
    its first steps. Glimpse k of n is taken at the fraction f where

        log(1 + f / EARLY) / log(1 + 1 / EARLY) = k / n,

    and n is `GLIMPSES`, or less where they, the first and the last look would take more than
    `GLIMPSING` of the time of the run.

    look: looks at the model, which has its averaged weights, at a step; it also gets the mean loss
    per target of the steps since the last glimpse, None before the first step. The steps are
    log-spaced, so the means are over more and more steps, and their curve is as smooth at its end
    as at its beginning. Random generators have the same state after a glimpse as before, so that
    training does not depend on glimpses. clock: returns the time in seconds.
    """

    look: Callable[[nn.Module, int, float | None], None]
    clock: Callable[[], float] = time.perf_counter
    fraction: float = 0.0
    step: int | None = None
    cost: float = 0.0
    loss: float = 0.0
    targets: int = 0
    reached: float = 0.0

    def begin(self, run: TrainingState) -> None:
        """Look at the model before its first step, or at the evaluation that a resume catches up
        on."""
        self.fraction, self.reached = run.fraction, _progress(run.fraction)
        if run.step in (0, run.evaluated):
            self.take(run)

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        self.loss, self.targets = (
            self.loss + report.loss * report.targets,
            self.targets + report.targets,
        )
        before, self.fraction = self.fraction, run.fraction
        count = self._affordable(run)
        progress = _progress(run.fraction)
        passed = int(count * progress) > int(count * _progress(before))
        is_far = progress - self.reached >= 1 / max(count, FEWEST)
        if passed or (run.evaluated == run.step and is_far):
            self.reached = progress
            self.take(run)

    def take(self, run: TrainingState) -> None:
        """Look at the model now. A second call at the same step does nothing."""
        if self.step == run.step:
            return
        started = self.clock()
        loss = self.loss / self.targets if self.targets else None
        self.loss, self.targets = 0.0, 0
        run.model.eval()
        device = next(run.model.parameters()).device
        forked = [device] if device.type == "cuda" else []
        with averaged(run) as model, torch.random.fork_rng(forked):
            self.look(model, run.step, loss)
        self.step, self.cost = run.step, self.clock() - started

    def _affordable(self, run: TrainingState) -> float:
        """Return the number of glimpses that fit into their part of the estimated time."""
        if not self.cost:
            return float(GLIMPSES)
        seconds = run.seconds / max(run.fraction, 1e-9)
        return min(float(GLIMPSES), GLIMPSING * seconds / self.cost - 2)


def _progress(fraction: float) -> float:
    """Return the fraction of the glimpses that are due at a fraction of the budget."""
    return math.log1p(fraction / EARLY) / math.log1p(1 / EARLY) + 1e-9
