"""The training loop, as one function without a trainer class."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

import torch

from headway.base.errors import HeadwayError
from headway.base.shapes import Tensor
from headway.base.transfers import read, read_later
from headway.training.objectives import Loss, Objective
from headway.training.optimizers import divides_and_checks, update_if_finite
from headway.training.recorded import RecordedGradients
from headway.training.signals import StopRequest
from headway.training.state import Observer, StepReport, TrainingState
from headway.transforms.fast.recurrent import fast_gradients

T = TypeVar("T")
Stream = Iterator[tuple[int, int, Any]]
"""An infinite iterator of (next epoch, next position, batch)."""


def repeated(batches: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """Yield (next epoch, next position, batch) without end, with the same batches in each epoch.

    `fit` trains on such a list of your own batches. Raises ValueError if the list is empty.
    """
    if not batches:
        raise ValueError("there must be at least one batch to repeat, but the list is empty")
    ends = range(1, len(batches) + 1)
    return (
        (epoch + end // len(batches), end % len(batches), batch)
        for epoch in count()
        for end, batch in zip(ends, batches, strict=True)
    )


class NonFinite(HeadwayError):
    """Raised for a loss or gradient that is not finite; the update was not applied."""


def fit(
    run: TrainingState,
    stream: Stream,
    objective: Objective,
    observers: Sequence[Observer] = (),
    *,
    steps: int,
    learning_rate: Callable[[int], float] | None = None,
    accumulate: int = 1,
    clip: float = 1.0,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    request: StopRequest | None = None,
    recorded: RecordedGradients | None = None,
) -> None:
    """Train until `steps` updates are done or something sets `run.stop`.

    learning_rate: the rate of an update, counted from 1; if None, the optimizer keeps its own.
    accumulate: micro-batches per update. clip: the maximum norm of the gradient. precision: the
    context of the forward pass. request: stops the run after the step that sets it. recorded:
    records the passes of batches whose shapes return, and replays them. A batch may have `indices`
    of its examples, for the message of a loss that is not finite.

    for each step:
        for each of `accumulate` micro-batches:
            loss = objective(model, batch)      a sum, and a count
            backward
        gradient /= number of targets in the window
        clip the gradient, check that it is finite, update
        observers: average, evaluate, save, show
    """
    loop = _Loop(run, stream, objective, learning_rate, accumulate, clip, precision, recorded)
    while run.step < steps and run.stop is None:
        report = loop.step()
        run.seconds += report.seconds
        started = time.perf_counter()
        for observer in observers:
            observer.after_step(run, report)
        run.seconds += time.perf_counter() - started
        if request is not None and request and run.stop is None:
            run.stop = "interrupted"
    run.stop = run.stop or "done"


class _Loop:
    """What all steps of a call of `fit` share."""

    def __init__(
        self,
        run: TrainingState,
        stream: Stream,
        objective: Objective,
        learning_rate: Callable[[int], float] | None,
        accumulate: int,
        clip: float,
        precision: Callable[[], AbstractContextManager[Any]],
        recorded: RecordedGradients | None,
    ) -> None:
        self.run, self.stream, self.objective = run, stream, objective
        self.learning_rate, self.accumulate, self.clip = learning_rate, accumulate, clip
        self.precision = precision
        # a walk through all modules at each step would take a tenth of that of a small model
        self.parameters = list(run.model.parameters())
        self.fast_gradients = fast_gradients(run.model)
        self.add_gradients: Callable[[Any], Loss] = self._add_gradients
        if recorded is not None:
            self.add_gradients = partial(recorded, self._add_gradients)

    def step(self) -> StepReport:
        """One update from one accumulation window."""
        run, started = self.run, time.perf_counter()
        run.model.train()
        run.optimizer.zero_grad(set_to_none=True)
        totals: list[Tensor] = []
        nats: list[Tensor] = []
        count = 0
        epoch, position, indices = run.epoch, run.position, []
        for _ in range(self.accumulate):
            epoch, position, batch = next(self.stream)
            part = self.add_gradients(batch)
            totals.append(part.total)
            nats.append(part.nats)
            count += part.count
            numbers = getattr(batch, "indices", ())  # a plain tensor has a method of this name
            indices += list(numbers) if isinstance(numbers, Sequence) else []
        lr = self._set_learning_rate()
        values, is_updated = self._scale_and_read(count, torch.stack(totals), torch.stack(nats))
        losses, nats_of_parts, norm = values
        loss, total_nats = sum(losses), sum(nats_of_parts)
        if not math.isfinite(norm) or not math.isfinite(loss):
            raise NonFinite(
                f"the {'gradient' if math.isfinite(loss) else 'loss'} of step {run.step + 1} is "
                "not finite; the step was not applied and nothing after it was saved",
                where=f"epoch {run.epoch}, batch {run.position}, {_some(batch, indices)} of the "
                "data",
                hint="check these examples, lower optimizer.lr, or set machine.dtype=float32",
            )
        if not is_updated:
            run.optimizer.step()
        run.step, run.epoch, run.position = run.step + 1, epoch, position
        run.targets += count
        seconds = time.perf_counter() - started
        count_or_one = max(count, 1)
        return StepReport(loss / count_or_one, total_nats / count_or_one, count, norm, lr, seconds)

    def _add_gradients(self, batch: Any) -> Loss:
        """Add the gradients of the loss of a batch to those of the parameters."""
        with self.precision():
            part = self.objective(self.run.model, batch)
        with self.fast_gradients():
            torch.autograd.backward(part.total)
        return replace(part, total=part.total.detach())

    def _scale_and_read(self, count: int, losses: Tensor, nats: Tensor) -> tuple[list[Any], bool]:
        """Divide the gradients by the number of targets, and clip them.

        Returns losses, nats and the norm of the gradient as numbers, and whether the parameters are
        updated already. These are the only values of a step that are read: until here a GPU need
        not be awaited. One that can leave out the update by itself gets it before, and so has work
        while the next step begins.
        """
        trained = [p for p in self.parameters if p.grad is not None]
        gradients = [p.grad for p in trained if p.grad is not None]
        targets = float(max(count, 1))
        if not divides_and_checks(self.run.optimizer, losses.device):
            torch._foreach_div_(gradients, targets)
            norm = torch.nn.utils.clip_grad_norm_(trained, self.clip)
            return read(losses, nats, norm.to(losses.device)), False
        norm = torch.nn.utils.get_total_norm(gradients) / targets
        values = read_later(losses, nats, norm)
        clipping = ((norm + 1e-6) / self.clip).clamp(min=1.0)  # as `clip_grad_norm_`
        update_if_finite(self.run.optimizer, targets * clipping, losses, norm)
        return values(), True

    def _set_learning_rate(self) -> float:
        """Set and return the rate of the next update."""
        groups = self.run.optimizer.param_groups
        if self.learning_rate is None:
            return float(groups[0]["lr"])
        lr = self.learning_rate(self.run.step + 1)
        for group in groups:
            group["lr"] = lr * group.get("scale", 1.0)
        return lr


def _some(batch: Any, indices: list[int]) -> str:
    """Name the first examples of an accumulation window: "lines 4, 8 and 3 more"."""
    name = getattr(batch, "examples", "examples")
    shown = ", ".join(str(index) for index in indices[:8])
    return f"{name} {shown}" + (f" and {len(indices) - 8} more" if len(indices) > 8 else "")
