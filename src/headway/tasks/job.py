"""The contract of a job: the parts of a training run that a task provides.

`run.train` does everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import nn

from headway.base.devices import MachineConfig
from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.tasks.sections import BlocksLoopConfig, FineTuningConfig
from headway.training import Event, Objective, Stream
from headway.transforms import compile, freeze, recompute

Emit = Callable[[Event], None]
"""Receives progress events while data is prepared; raises `Interrupted` if the run must stop."""


@runtime_checkable
class Job(Protocol):
    """One training run of a task, after its data was prepared.

    config: the configuration of the run, in which the settings are set that the data decide
    (vocabulary sizes). held_out: the examples of `Task.evaluate` at each evaluation. evaluation:
    its options.
    """

    config: Any

    @property
    def objective(self) -> Objective: ...

    @property
    def held_out(self) -> Any: ...

    @property
    def evaluation(self) -> Any: ...

    def build(self) -> nn.Module:
        """Build the untrained model. The random seed was set before the call."""
        ...

    def stream(self, epoch: int, position: int) -> Stream:
        """Yield batches from this epoch and position on, endlessly."""
        ...

    def bundle(self, model: Any) -> Bundle:
        """Return the bundle of the model, in which it is used and saved."""
        ...

    def plan(self) -> dict[str, Any]:
        """Summarise the job for the terminal.

        Returns descriptions of model and batches, unit of the targets, and batches_per_epoch.
        """
        ...


class Example(NamedTuple):
    """One held-out example of a job, as the arguments of `watch`."""

    input: Any
    second: str | None = None
    target: str | None = None
    language: str | None = None


@runtime_checkable
class Watchable(Protocol):
    """A `Job` that can show one held-out example."""

    def example(self) -> Example | None: ...


@runtime_checkable
class HasBaseline(Protocol):
    """A `Job` whose model is compared with its pre-trained model or its teacher."""

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """Evaluate that model on the held-out data before training.

        progress: as in `Task.evaluate`. Returns a note with its scores, or None for no note.
        """
        ...


@runtime_checkable
class HasUnsavedParts(Protocol):
    """A `Job` whose evaluation needs parts of the model that are not saved."""

    def evaluated(self, model: Any) -> Any:
        """Return the object that `Task.evaluate` receives instead of the bundle."""
        ...


def planned_steps(
    training: FineTuningConfig, batches: int, least: int, passes: float = 1.0
) -> dict[str, int]:
    """Determine the number of training steps.

    It is training.steps if set, or the number of updates in training.epochs if that is set, or else
    the larger of `least` and the number of updates in `passes` epochs. batches: the number of
    batches of an epoch. Returns {"training.steps": number}.

    Raises UsageError if steps and epochs are both set and disagree.
    """
    requested, epochs = training.steps, training.epochs
    if epochs is None:
        return {"training.steps": requested or max(least, _updates(training, batches, passes))}
    steps = _updates(training, batches, epochs)
    if requested not in (None, steps):
        raise UsageError(
            f"training.steps={requested} disagrees with training.epochs={epochs:g}, which is "
            f"{steps:,} steps",
            hint="set only one of them; --training.epochs none unsets it",
        )
    return {"training.steps": steps}


def _updates(training: FineTuningConfig, batches: int, passes: float) -> int:
    return math.ceil(passes * batches / training.accumulate)


@runtime_checkable
class SizedTraining(Protocol):
    """The settings that determine the number of examples of an update."""

    @property
    def batch_size(self) -> int: ...

    @property
    def accumulate(self) -> int: ...


def update_size(training: SizedTraining, examples_per_epoch: int) -> int:
    """Return the number of examples of an update: no batch has more than an epoch."""
    return min(training.batch_size, examples_per_epoch) * training.accumulate


def prepare_blocks(
    model: nn.Module,
    training: BlocksLoopConfig,
    machine: MachineConfig,
) -> None:
    """Freeze blocks, switch on activation checkpointing and compile, as the settings require."""
    if isinstance(training, FineTuningConfig) and training.frozen is not None:
        freeze(model, training.frozen)
    if training.recompute:
        recompute(model)
    if machine.compile:
        compile(model)
