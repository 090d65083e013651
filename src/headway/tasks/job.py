"""The contract of a job: the parts of a training run that a task provides, as a record.

`run.train` does everything else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from torch import nn

from headway.base.devices import MachineConfig
from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.data.prepared import Emit as Emit
from headway.data.prepared import Progress as Progress
from headway.data.stream import Batch, Batches
from headway.tasks.sections import BlocksLoopConfig, FineTuningConfig
from headway.training import Objective, View
from headway.transforms import compile, freeze, recompute

Network = TypeVar("Network", bound=nn.Module)
B = TypeVar("B", bound=Batch)
Examples = TypeVar("Examples", covariant=True)
Options = TypeVar("Options", covariant=True)


@dataclass(frozen=True)
class TextPairs:
    """Pairs of texts whose vectors are compared: first[i] and second[i] belong together."""

    first: Sequence[str]
    second: Sequence[str]


class Example(NamedTuple):
    """One held-out example of a job: the arguments of `Bundle.probe`, and its label, if any.

    The input of a model that only computes vectors is `TextPairs`.
    """

    input: object
    second: str | None = None
    target: str | None = None
    language: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Descriptions of the model and of the batch of an update, for the terminal. unit: what the
    loss counts."""

    model: str
    batches: str
    unit: str


@dataclass(frozen=True, kw_only=True)
class Job(Generic[B, Examples, Options]):
    """One training run of a task, after its data was prepared.

    config: the configuration of the run, in which the settings are set that the data decide
    (vocabulary sizes). build: builds the untrained model; the random seed was set before the call.
    batches: the training batches. objective: their loss. held_out, evaluation: the examples and the
    options of `Task.evaluate` at each evaluation. bundle: returns the bundle of the model, in which
    it is used and saved.

    views: returns the views of a batch that models of the task compute, for distillation; None: its
    models cannot be teachers. example: a held-out example, with which the run is filmed. baseline:
    evaluates the pre-trained model or the teacher on the held-out data before training, and returns
    a note with its scores, or None for no note. evaluated: returns the object that `Task.evaluate`
    receives instead of the bundle, if it needs parts of the model that are not saved. is_divisible:
    whether the loss of a batch is the sum of those of its parts.
    """

    config: Any
    build: Callable[[], nn.Module]
    batches: Batches[Any, B]
    objective: Objective
    held_out: Examples
    evaluation: Options
    bundle: Callable[[Any], Bundle]
    summary: Summary
    views: Callable[[B], Sequence[View]] | None = None
    example: Example | None = None
    baseline: Callable[[Progress], str | None] | None = None
    evaluated: Callable[[Any], Any] | None = None
    is_divisible: bool = True

    @property
    def accumulate(self) -> int:
        """The number of batches of `batches` in an update."""
        count: int = self.config.training.accumulate * (self.config.machine.micro_batches or 1)
        return count


AnyJob = Job[Any, Any, Any]


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


class SizedTraining(Protocol):
    """The settings that determine the number of examples of an update."""

    @property
    def batch_size(self) -> int: ...

    @property
    def accumulate(self) -> int: ...


def update_size(training: SizedTraining, examples_per_epoch: int) -> int:
    """Return the number of examples of an update: no batch has more than an epoch."""
    return min(training.batch_size, examples_per_epoch) * training.accumulate


def prepare_blocks(model: Network, training: BlocksLoopConfig, machine: MachineConfig) -> Network:
    """Freeze blocks, switch on activation checkpointing and compile, as the settings require."""
    if isinstance(training, FineTuningConfig) and training.frozen is not None:
        freeze(model, training.frozen)
    if training.recompute:
        recompute(model)
    if machine.compile:
        compile(model)
    return model
