"""The training loop, as one function without a trainer class."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from headway.errors import HeadwayError
from headway.machine import read
from headway.shapes import Tensor
from headway.training.objectives import Objective
from headway.training.signals import StopRequest
from headway.training.state import Observer, StepReport, TrainingState
from headway.transforms.fast import fast_gradients

Stream = Iterator[tuple[int, int, Any]]
"""An infinite iterator of (next epoch, next position, batch)."""


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
) -> None:
    """Train until `steps` updates are done or something sets `run.stop`.

    learning_rate: the rate of an update, counted from 1; if None, the optimizer keeps its own.
    accumulate: micro-batches per update. clip: the maximum norm of the gradient. precision: the
    context of the forward pass. request: stops the run after the step that sets it. A batch may
    have `indices` of its examples, for the message of a loss that is not finite.

    for each step:
        for each of `accumulate` micro-batches:
            loss = objective(model, batch)      a sum, and a count
            backward
        gradient /= number of targets in the window
        clip the gradient, check that it is finite, update
        observers: average, evaluate, save, show
    """
    while run.step < steps and run.stop is None:
        started = time.perf_counter()
        report = _step(run, stream, objective, learning_rate, (accumulate, clip), precision)
        for observer in observers:
            observer.after_step(run, report)
        run.seconds += time.perf_counter() - started
        if request is not None and request and run.stop is None:
            run.stop = "interrupted"
    run.stop = run.stop or "done"


def _step(
    run: TrainingState,
    stream: Stream,
    objective: Objective,
    learning_rate: Callable[[int], float] | None,
    window: tuple[int, float],
    precision: Callable[[], AbstractContextManager[Any]],
) -> StepReport:
    """One update from one accumulation window."""
    started = time.perf_counter()
    accumulate, clip = window
    run.model.train()
    run.optimizer.zero_grad(set_to_none=True)
    totals: list[Tensor] = []
    nats: list[Tensor] = []
    count = 0
    epoch, position, indices = run.epoch, run.position, []
    for _ in range(accumulate):
        epoch, position, batch = next(stream)
        with precision():
            part = objective(run.model, batch)
        with fast_gradients(run.model):
            torch.autograd.backward(part.total)
        totals.append(part.total.detach())
        nats.append(part.nats)
        count += part.count
        numbers = getattr(batch, "indices", ())  # a plain tensor has a method of this name
        indices += list(numbers) if isinstance(numbers, Sequence) else []
    parameters = [p for p in run.model.parameters() if p.grad is not None]
    torch._foreach_div_([p.grad for p in parameters if p.grad is not None], float(max(count, 1)))
    gradient_norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
    # The only values of a step that are read: until here a GPU need not be awaited.
    of_losses, of_nats = torch.stack(totals), torch.stack(nats)
    losses, nats_of_parts, norm = read(of_losses, of_nats, gradient_norm.to(of_losses.device))
    loss, total_nats = sum(losses), sum(nats_of_parts)
    if not math.isfinite(norm) or not math.isfinite(loss):
        raise NonFinite(
            f"the {'gradient' if math.isfinite(loss) else 'loss'} of step {run.step + 1} is not "
            "finite; the step was not applied and nothing after it was saved",
            where=f"epoch {run.epoch}, batch {run.position}, {_some(batch, indices)} of the data",
            hint="check these examples, lower optimizer.lr, or set machine.dtype=float32",
        )
    groups = run.optimizer.param_groups
    lr = groups[0]["lr"] if learning_rate is None else learning_rate(run.step + 1)
    if learning_rate is not None:
        for group in groups:
            group["lr"] = lr * group.get("scale", 1.0)
    run.optimizer.step()
    run.step, run.epoch, run.position = run.step + 1, epoch, position
    run.targets += count
    seconds = time.perf_counter() - started
    return StepReport(loss / max(count, 1), total_nats / max(count, 1), count, norm, lr, seconds)


def _some(batch: Any, indices: list[int]) -> str:
    """Name the first examples of an accumulation window: "lines 4, 8 and 3 more"."""
    name = getattr(batch, "examples", "examples")
    shown = ", ".join(str(index) for index in indices[:8])
    return f"{name} {shown}" + (f" and {len(indices) - 8} more" if len(indices) > 8 else "")
