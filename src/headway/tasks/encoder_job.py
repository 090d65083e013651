"""What training runs share that fine-tune an encoder: rows by length, the model, the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from headway.bundle import Bundle, EncoderBundle
from headway.data.length_batches import ByLength
from headway.machine import Machine
from headway.models import Bert
from headway.settings import override
from headway.tasks.finetuning import copy_of, shape_of
from headway.tasks.job import planned_steps, prepare_blocks
from headway.training import Objective, Stream


class EncoderJob(ABC):
    """A `Job` that begins with an encoder. A subclass says what a batch is and what the head is.

    unit: what the rows are; targets: what the loss counts. config: of the run; start: the encoder.
    lengths: of all training rows. least, passes: as `planned_steps` has them. decided: further
    settings that follow from the data.
    """

    unit: ClassVar[str] = "sentences"
    targets: ClassVar[str] = "words"
    objective: Objective
    held_out: Any
    evaluation: Any

    def __init__(
        self,
        config: Any,
        start: EncoderBundle,
        machine: Machine,
        lengths: Sequence[int],
        *,
        least: int,
        passes: float = 1.0,
        decided: Mapping[str, Any] | None = None,
    ) -> None:
        self.start, self.machine = start, machine
        training = config.training
        self.rows = ByLength(list(lengths), self.batch, training.rows, training.seed)
        steps = planned_steps(training, self.rows.batches_an_epoch, least, passes)
        self.config = override(config, {**steps, **(decided or {})}, f"the {self.unit}")

    @property
    def pad(self) -> int:
        """The token that fills shorter rows of a batch."""
        return self.start.tokenizer.marks.pad

    @abstractmethod
    def batch(self, chosen: list[int]) -> Any:
        """The training rows of these numbers, on the machine's device."""

    @abstractmethod
    def with_head(self, bert: Bert) -> nn.Module:
        """The model that is trained, made of a copy of the encoder."""

    @abstractmethod
    def bundle(self, model: Any) -> Bundle:
        """The model as it is used and saved."""

    def build(self) -> nn.Module:
        """The untrained model; blocks are frozen, recomputed or compiled as the settings say."""
        bert = copy_of(self.start, self.config.model.dropout)
        model = self.with_head(bert)
        prepare_blocks(model, self.config.training, self.config.machine, bert, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        """Batches from there on, without end."""
        return self.rows.stream(epoch, position)

    @property
    def described(self) -> str:
        """The model in words."""
        return shape_of(self.start)

    def plan(self) -> dict[str, Any]:
        """For the screen."""
        training = self.config.training
        return {
            "model": self.described,
            "batches": f"{training.rows * training.accumulate:,} {self.unit}",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": self.targets,
        }
