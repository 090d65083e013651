"""Everything that a run is, in one place: what is not here is not saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from headway.training.averaging import WeightAverage

Event = dict[str, Any]
"""One row of metrics.jsonl: {"kind": "step" | "valid" | "saved" | ..., "step": ..., ...}."""


@dataclass
class TrainingState:
    """A training run between two steps.

    epoch, position: the next micro-batch to read (`Batches.stream`). Steps are only ever
    interrupted between accumulation windows, so the position inside a window is always 0.
    seconds: time spent in the loop, evaluations included, over all
    resumes. best: best value of the metric called `metric` so far.
    stale: evaluations since the best. evaluated: the last step that was evaluated.
    unlogged: sums over the steps since the last row of the log.
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
    unlogged: dict[str, float] = field(default_factory=dict)
    stop: str | None = None
    listeners: list[Callable[[Event], None]] = field(default_factory=list)

    def emit(self, kind: str, **values: Any) -> None:
        """Tell everybody who listens: the log on disk, the screen."""
        for listener in self.listeners:
            listener({"kind": kind, "step": self.step, **values})


COUNTERS = (
    "step",
    "epoch",
    "position",
    "targets",
    "seconds",
    "best",
    "metric",
    "best_step",
    "stale",
    "evaluated",
    "unlogged",
)
"""The fields of a state that are plain values, saved as JSON."""


@dataclass(frozen=True)
class StepReport:
    """What one update did. loss: smoothed, nats a target. nats: plain. seconds: of this step."""

    loss: float
    nats: float
    targets: int
    grad_norm: float
    lr: float
    seconds: float


@runtime_checkable
class Observer(Protocol):
    """Called after every step; may set `run.stop`."""

    def after_step(self, run: TrainingState, report: StepReport) -> None: ...
