"""The state of a training run: everything that a checkpoint saves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from headway.base.metrics_file import Event
from headway.training.averaging import WeightAverage
from headway.transforms.shard import Shards


@dataclass
class TrainingState:
    """A training run between two steps.

    epoch, position: the next micro-batch to read (`Batches.stream`). Runs are interrupted only
    between accumulation windows, so the position inside a window is always 0.
    seconds: time spent in the loop, evaluations included, over all resumes. best: best value so
    far of the metric called `metric`. stale: number of evaluations since the best. evaluated: the
    last step that was evaluated. fraction: the part of the budget that is used (`training.budget`);
    evaluated_fraction: at the last evaluation. evaluations, evaluation_seconds: the number of
    evaluations and their time. unlogged: sums over the steps since the last line of the log.
    stop: the reason why the run ends; None while it runs. shards: the parts of a model of which
    every process has one; None if each has all of it.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: WeightAverage | None = None
    step: int = 0
    epoch: int = 0
    position: int = 0
    targets: int = 0
    seconds: float = 0.0
    best: float | None = None
    metric: str | None = None
    best_step: int = 0
    stale: int = 0
    evaluated: int = 0
    fraction: float = 0.0
    evaluated_fraction: float = 0.0
    evaluations: int = 0
    evaluation_seconds: float = 0.0
    unlogged: dict[str, float] = field(default_factory=dict)
    stop: str | None = None
    shards: Shards | None = None
    listeners: list[Callable[[Event], None]] = field(default_factory=list)

    def emit(self, kind: str, **values: Any) -> None:
        """Send an event to all listeners, such as the log on disk and the terminal."""
        for listener in self.listeners:
            listener({"kind": kind, "step": self.step, **values})


@contextmanager
def averaged(run: TrainingState) -> Iterator[nn.Module]:
    """Return the whole model inside the block, with its averaged weights if the run averages them.

    All processes of a sharded run enter it together.
    """
    if run.shards is not None:
        with run.shards.whole({} if run.average is None else run.average.weights) as model:
            yield model
    elif run.average is not None:
        with run.average.applied(run.model):
            yield run.model
    else:
        yield run.model


_OBJECTS = {"model", "optimizer", "average", "stop", "shards", "listeners"}
COUNTERS = tuple(item.name for item in fields(TrainingState) if item.name not in _OBJECTS)
"""The fields of `TrainingState` that are plain values of the run; they are saved as JSON."""


@dataclass(frozen=True)
class StepReport:
    """The result of one update.

    loss: the objective per target, with label smoothing. nats: negative log-likelihood per target.
    seconds: duration of this step.
    """

    loss: float
    nats: float
    targets: int
    grad_norm: float
    lr: float
    seconds: float


@runtime_checkable
class Observer(Protocol):
    """Object that is called after every step; it may set `run.stop`."""

    def after_step(self, run: TrainingState, report: StepReport) -> None: ...
