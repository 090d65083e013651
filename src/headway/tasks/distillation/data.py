"""The data of distillation: batches with the weights of their losses, and held-out examples."""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch

from headway.base.errors import UsageError
from headway.base.sharing import Share
from headway.bundle import Bundle
from headway.data.stream import Batch, Batches, Order
from headway.evaluation.scores import Metric, Scores
from headway.tasks.distillation.config import DistilRunConfig
from headway.tasks.registry import task_of_family
from headway.tasks.sections import RunSettings, TwoStageConfig
from headway.tasks.task import AnyTask, NoOptions
from headway.training import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    LayersConfig,
    filled_weights,
)

Item = TypeVar("Item")
B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class Staged(Generic[Item]):
    """An item of the order of the teacher's task. inside: whether its batch is one of the first, of
    which the loss compares hidden layers only."""

    item: Item
    inside: bool


class StagedOrder(Order[Staged[Item]]):
    """The order of the teacher's task.

    first: the number of batches, the first ones of the run, whose loss compares hidden layers only.
    """

    def __init__(self, order: Order[Item], first: int) -> None:
        self.order, self.first = order, first
        self.examples_per_epoch, self.batch_size = order.examples_per_epoch, order.batch_size

    @property
    def batches_per_epoch(self) -> int:
        return self.order.batches_per_epoch

    def __call__(self, epoch: int) -> list[Staged[Item]]:
        before = epoch * self.batches_per_epoch
        items = enumerate(self.order(epoch), before)
        return [Staged(item, number < self.first) for number, item in items]

    def part(self, item: Staged[Item], rank: int, size: int) -> Staged[Item] | None:
        part = self.order.part(item.item, rank, size)
        return None if part is None else replace(item, item=part)


def with_weights(
    batches: Batches[Item, B], config: DistilRunConfig
) -> Batches[Staged[Item], DistillationBatch]:
    """Return the batches of the teacher's task with the weights of the loss terms."""
    losses, training = config.distillation, config.training
    fraction = losses.first_stage if isinstance(losses, TwoStageConfig) else 0.0
    first = round(fraction * training.steps) * training.accumulate

    def make(staged: Staged[Item], epoch: int) -> DistillationBatch | None:
        batch = batches.make(staged.item, epoch)
        weights = weights_of(losses, inside=staged.inside)
        return None if batch is None else DistillationBatch(batch, weights)

    order = StagedOrder(batches.order, first)
    return Batches(order, make, batches.device)


def weights_of(config: LayersConfig, *, inside: bool) -> DistillationConfig:
    """Return the weights of the loss terms. inside: those of the first of two stages."""
    if not isinstance(config, TwoStageConfig):
        return DistillationConfig(**asdict(filled_weights(config, 1.0)), prediction=0.0)
    if not config.first_stage:
        return filled_weights(config, 0.0)
    if inside:
        return replace(filled_weights(config, 1.0), prediction=0.0)
    return replace(config, embedding=0.0, hidden=0.0, attention=0.0)


@dataclass(frozen=True, kw_only=True)
class TaskExamples:
    """The examples and options with which the teacher's task evaluates a student."""

    task: AnyTask
    examples: Sized
    options: object

    def __len__(self) -> int:
        return len(self.examples)

    def scores(self, student: object, share: Share) -> Scores:
        """Evaluate the student with `Task.evaluate` of the teacher's task."""
        return self.task.score(student, self.examples, self.options, share)


@dataclass(frozen=True, kw_only=True)
class ComparedBatches:
    """Batches on which a student without outputs is compared with its teacher.

    objective: computes the difference. weights: the weights of its terms.
    """

    objective: DistillationObjective
    batches: Callable[[], Iterator[Batch]]
    weights: DistillationConfig

    @torch.inference_mode()
    def scores(self, student: object, share: Share) -> Scores:
        """Compute the mean difference per text; lower is better."""
        assert isinstance(student, DistillationStudent)

        def compute(batch: Batch) -> tuple[float, int]:
            loss = self.objective(student, DistillationBatch(batch, self.weights))
            return loss.total.item(), loss.count

        total, count = 0.0, 0
        for difference, texts in share.each(self.batches(), compute):
            total, count = total + difference, count + texts
        return Scores((Metric("difference", total / count, higher_is_better=False),))


Compared = TaskExamples | ComparedBatches


def read_examples(
    bundle: Bundle, paths: Sequence[Path], config: RunSettings | None, options: NoOptions
) -> Compared:
    """Read the examples of files as the teacher's task does."""
    task = _task_of(bundle)
    defaults = task.evaluation()
    examples = task.read(bundle, paths, config, defaults)
    return TaskExamples(task=task, examples=examples, options=defaults)


def held_out_examples(bundle: Bundle, run: Path, config: object, options: NoOptions) -> Compared:
    """Return the held-out examples of the run.

    Raises UsageError for a student without outputs: its difference from the teacher can be computed
    only during training, because the projection matrices are not saved.
    """
    assert isinstance(config, DistilRunConfig)
    if not isinstance(config.distillation, TwoStageConfig):
        raise UsageError(
            f"{run} holds a student without outputs, which is evaluated only during training",
            hint="name a file of examples, or fine-tune the student and evaluate that model",
        )
    task = _task_of(bundle)
    defaults = task.evaluation()
    examples = task.held_out(bundle, run, config, defaults)
    return TaskExamples(task=task, examples=examples, options=defaults)


def _task_of(student: Bundle) -> AnyTask:
    """Return the task of the student, which is that of its teacher."""
    task = task_of_family(student.config.family)
    assert task is not None
    return task
