"""A dry run: a few steps of training and a few batches of evaluation, whatever the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.runs.recipes import AnyRunConfig, amended
from headway.settings import MOST
from headway.training import Interrupted, StepReport, StopRequest, TrainingState

DRY_RUN = "dry run"


@dataclass(frozen=True)
class DryRun:
    """Limits of a run that only shows what the real one needs; an observer that ends it.

    steps: updates of the model. batches: of the evaluation that follows them; an evaluation that
    needs more is cut there, and has no scores.
    """

    steps: int = 6
    batches: int = 6

    def configured(self, config: AnyRunConfig) -> AnyRunConfig:
        """The configuration with neither a time limit nor an evaluation before the last step. All
        that a step's cost depends on stays."""
        return amended(config, ("--dry-run", {"training.time": None, "evaluation.every": MOST}))

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """End the run, as any observer may."""
        if run.step >= self.steps and run.stop is None:
            run.stop = DRY_RUN


@dataclass(frozen=True)
class GoOn:
    """Whether a run's evaluations are to continue. batches: of each at most; None: no limit."""

    request: StopRequest
    batches: int | None = None

    def from_here(self) -> Callable[..., None]:
        """A function for one evaluation to call before each batch. It raises `Interrupted` when the
        run is asked to stop, or when that many batches were evaluated."""
        done = 0

        def go_on(_: int = 0) -> None:
            nonlocal done
            if self.request:
                raise Interrupted
            if done == self.batches:
                raise Interrupted(DRY_RUN)
            done += 1

        return go_on
