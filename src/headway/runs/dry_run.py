"""A dry run: a few steps of training and a few batches of evaluation, for any task."""

from collections.abc import Callable
from dataclasses import dataclass

from headway.base.settings import MOST
from headway.base.sharing import Interrupted
from headway.runs.recipes import AnyRunConfig, with_settings
from headway.training import StepReport, StopRequest, TrainingState

DRY_RUN = "dry run"


@dataclass(frozen=True)
class DryRun:
    """The limits of a dry run, and the observer that ends it.

    steps: number of updates. batches: number of batches of the evaluation after them; an evaluation
    with more batches is stopped, and has no scores.
    """

    steps: int = 6
    batches: int = 6

    def configured(self, config: AnyRunConfig) -> AnyRunConfig:
        """The configuration without a time limit and without evaluations before the last step.

        Settings that change the cost of a step stay the same.
        """
        return with_settings(
            config, ("--dry-run", {"training.time": None, "evaluation.every": MOST})
        )

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """End the run after the last step of the dry run."""
        if run.step >= self.steps and run.stop is None:
            run.stop = DRY_RUN


@dataclass(frozen=True)
class EvaluationLimit:
    """Stops the evaluations of a run. batches: the most per evaluation; None for no limit."""

    request: StopRequest
    batches: int | None = None

    def from_here(self) -> Callable[..., None]:
        """A function that one evaluation calls before each batch.

        It raises `Interrupted` after a request to stop the run, or at the limit of batches.
        """
        done = 0

        def check(_: int = 0) -> None:
            nonlocal done
            if self.request:
                raise Interrupted
            if done == self.batches:
                raise Interrupted(DRY_RUN)
            done += 1

        return check
