"""What a task brings to a training run; `run.train` does everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import nn

from headway.bundle import Bundle
from headway.errors import UsageError
from headway.machine import MachineConfig
from headway.tasks.sections import BlocksLoopConfig, FineTuningConfig
from headway.training import Event, Objective, Stream
from headway.transforms import compile, freeze, recompute

Emit = Callable[[Event], None]
"""Tells the listeners while data is prepared; raises `Interrupted` if somebody asked to stop."""


@runtime_checkable
class Job(Protocol):
    """One training run of a task, after its data was prepared.

    config: the run's, with what the data decided (vocabulary sizes) filled in. held_out: the
    examples that `Task.evaluate` gets each time. evaluation: its options.
    """

    config: Any

    @property
    def objective(self) -> Objective: ...

    @property
    def held_out(self) -> Any: ...

    @property
    def evaluation(self) -> Any: ...

    def build(self) -> nn.Module:
        """The untrained model. The seed was set just before."""
        ...

    def stream(self, epoch: int, position: int) -> Stream:
        """Batches from there on, without end."""
        ...

    def bundle(self, model: Any) -> Bundle:
        """The model as it is used and saved."""
        ...

    def plan(self) -> dict[str, Any]:
        """For the screen: model and batches in words, unit of the targets, batches_an_epoch."""
        ...


class Example(NamedTuple):
    """What a job shows of its held-out data: as `watch` takes it."""

    given: Any
    second: str | None = None
    target: str | None = None
    language: str | None = None


@runtime_checkable
class Watchable(Protocol):
    """A `Job` that can show one held-out example."""

    def example(self) -> Example | None: ...


@runtime_checkable
class Compared(Protocol):
    """A `Job` that is compared with the model that it starts from or learns from."""

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """A note on what that model scores on the held-out data, before training; None to show
        none. progress: as in `Task.evaluate`."""
        ...


@runtime_checkable
class Accompanied(Protocol):
    """A `Job` whose models are evaluated together with what is not saved of them."""

    def evaluated(self, model: Any) -> Any:
        """What `Task.evaluate` gets in place of the bundle."""
        ...


def moved(batches: Iterator[tuple[int, int, Any]], device: str) -> Stream:
    """The same batches on another device."""
    return ((epoch, position, batch.to(device)) for epoch, position, batch in batches)


def planned_steps(
    training: FineTuningConfig, batches: int, least: int, passes: float = 1.0
) -> dict[str, int]:
    """{"training.steps": how many}: those named, or as many as training.epochs has, or else
    `least`, and `passes` over the examples where that is more. batches: of one pass.

    UsageError if steps and epochs are both named and disagree.
    """
    named, epochs = training.steps, training.epochs
    if epochs is None:
        return {"training.steps": named or max(least, _updates(training, batches, passes))}
    steps = _updates(training, batches, epochs)
    if named not in (None, steps):
        raise UsageError(
            f"training.steps={named} is not training.epochs={epochs:g}, which is {steps:,} steps",
            hint="name one of them; --training.epochs none takes it back",
        )
    return {"training.steps": steps}


def _updates(training: FineTuningConfig, batches: int, passes: float) -> int:
    return math.ceil(passes * batches / training.accumulate)


def prepare_blocks(
    model: nn.Module,
    training: BlocksLoopConfig,
    machine: MachineConfig,
    body: nn.Module,
    reads: str,
) -> None:
    """Frozen blocks, blocks that run twice to save memory, and a compiled model, as asked for.

    reads: the method of `body`, the model itself or what it was made from, that training calls.
    """
    if isinstance(training, FineTuningConfig) and training.frozen is not None:
        freeze(model, training.frozen)
    if training.recompute:
        recompute(model)
    if machine.compile:
        compile(body, reads)
