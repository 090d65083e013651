"""The training loop, as one function without a trainer class."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

import torch

from headway.base.devices import most_exact
from headway.base.errors import HeadwayError
from headway.base.ranks import Ranks
from headway.base.shapes import Tensor
from headway.base.transfers import read, read_later
from headway.training.objectives.contract import Loss, Objective
from headway.training.optimizers import divides_and_checks, update_if_finite
from headway.training.recorded import RecordedGradients
from headway.training.signals import StopRequest
from headway.training.state import Observer, StepReport, TrainingState
from headway.transforms.fast.recurrent import fast_gradients
from headway.transforms.replicate import Replicas

T = TypeVar("T")
Stream = Iterator[tuple[int, int, Any]]
"""An infinite iterator of (next epoch, next position, batch).

The batch is None where other processes have all of its examples (`Batches.shared`).
"""


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
    replicas: Replicas | None = None,
) -> None:
    """Train until `steps` updates are done or something sets `run.stop`.

    learning_rate: the rate of an update, counted from 1; if None, the optimizer keeps its own.
    accumulate: micro-batches per update. clip: the maximum norm of the gradient. precision: the
    context of the forward pass. request: stops the run after the step that sets it. recorded:
    records the passes of batches whose shapes return, and replays them. A batch may have `indices`
    of its examples, for the message of a loss that is not finite. replicas: the copies of the model
    in several processes, each of which calls this function with its part of every batch.

    for each step:
        for each of `accumulate` micro-batches:
            loss = objective(model, batch)      a sum, and a count
            backward
        gradient /= number of targets in the window, of all processes
        clip the gradient, check that it is finite, update
        observers: average, evaluate, save, show
    """
    loop = _Loop(run, stream, objective, learning_rate, accumulate, clip, precision, recorded)
    loop.replicas = replicas
    while run.step < steps and run.stop is None:
        with nullcontext() if replicas is None else replicas.watched(run.step + 1):
            report = loop.step()
        run.seconds += report.seconds
        started = time.perf_counter()
        for observer in observers:
            observer.after_step(run, report)
        run.seconds += time.perf_counter() - started
        if request is not None and request and run.stop is None:
            run.stop = "interrupted"
        if replicas is not None:
            agree(run, replicas.ranks)
    run.stop = run.stop or "done"


def agree(run: TrainingState, ranks: Ranks) -> None:
    """Give all processes the clocks of the first, on which the run depends, and let all stop if one
    does."""
    clocks = (run.seconds, run.evaluation_seconds) if ranks.is_first else (0.0, 0.0)
    is_over = float(run.stop is not None)
    stopped, *agreed = ranks.totals([is_over, *clocks], f"the end of step {run.step}")
    run.seconds, run.evaluation_seconds = agreed
    if stopped:
        reasons = ranks.gathered(run.stop, f"the stop after step {run.step}")
        run.stop = next(reason for reason in reasons if reason is not None)


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
        # walks through all modules at each step would take a tenth of that of a small model
        self.parameters, self.modules = list(run.model.parameters()), list(run.model.modules())
        self.fast_gradients = fast_gradients(run.model)
        self.add_gradients: Callable[[Any], Loss] = self._add_gradients
        if recorded is not None:
            self.add_gradients = partial(recorded, self._add_gradients)
        self.replicas: Replicas | None = None

    def step(self) -> StepReport:
        """One update from one accumulation window."""
        run, started = self.run, time.perf_counter()
        if not all(module.training for module in self.modules):
            run.model.train()
        run.optimizer.zero_grad(set_to_none=True)
        if self.replicas is not None:
            self.replicas.begin(run.step + 1)
        totals: list[Tensor] = []
        nats: list[Tensor] = []
        count = 0
        epoch, position, indices = run.epoch, run.position, []
        for _ in range(self.accumulate):
            epoch, position, batch = next(self.stream)
            if batch is None:
                continue
            part = self.add_gradients(batch)
            totals.append(part.total)
            nats.append(part.nats)
            count += part.count
            numbers = getattr(batch, "indices", ())  # a plain tensor has a method of this name
            indices += list(numbers) if isinstance(numbers, Sequence) else []
        lr = self._set_learning_rate()
        if self.replicas is not None:
            count, totals, nats = self._over_processes(self.replicas, count, totals, nats)
        values, is_updated = self._scale_and_read(count, torch.stack(totals), torch.stack(nats))
        losses, nats_of_parts, norm = values
        loss, total_nats = sum(losses), sum(nats_of_parts)
        if not math.isfinite(norm) or not math.isfinite(loss):
            if self.replicas is not None:
                of_all = self.replicas.ranks.gathered(indices, "the examples of the step")
                indices = [index for own in of_all for index in own]
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
        if self.replicas is not None:
            (seconds,) = self.replicas.ranks.of_first([seconds], f"the time of step {run.step}")
        count_or_one = max(count, 1)
        return StepReport(loss / count_or_one, total_nats / count_or_one, count, norm, lr, seconds)

    def _add_gradients(self, batch: Any) -> Loss:
        """Add the gradients of the loss of a batch to those of the parameters."""
        with self.precision():
            part = self.objective(self.run.model, batch)
        with self.fast_gradients():
            torch.autograd.backward(part.total)
        return replace(part, total=part.total.detach())

    def _over_processes(
        self, replicas: Replicas, count: int, totals: list[Tensor], nats: list[Tensor]
    ) -> tuple[int, list[Tensor], list[Tensor]]:
        """Add up the gradients, the targets and the losses of a window over all processes.

        A process without any example of the window adds nothing.
        """
        sums = [float(torch.stack(values).sum()) if values else 0.0 for values in (totals, nats)]
        targets, loss, all_nats = replicas.add([float(count), *sums], self.run.step + 1)
        return round(targets), [self._on_device(loss)], [self._on_device(all_nats)]

    def _on_device(self, number: float) -> Tensor:
        device = self.parameters[0].device
        return torch.tensor(number, dtype=most_exact(device), device=device)

    def _scale_and_read(self, count: int, losses: Tensor, nats: Tensor) -> tuple[list[Any], bool]:
        """Divide the gradients by the number of targets, and clip them.

        Returns losses, nats and the norm of the gradient as numbers, and whether the parameters are
        updated already. Only here does the CPU wait for a GPU: no other value of a step is read. An
        optimizer that skips an update that is not finite is launched before that, so the GPU has
        work while the next step begins.
        """
        trained = [p for p in self.parameters if p.grad is not None]
        gradients = [p.grad for p in trained if p.grad is not None]
        targets = float(max(count, 1))
        if not divides_and_checks(self.run.optimizer, losses.device):
            torch._foreach_div_(gradients, targets)
            if self.replicas is not None:
                norm = self.replicas.clip(gradients, self.clip, self.run.step + 1)
            else:
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
