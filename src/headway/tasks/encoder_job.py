"""The base class of jobs that fine-tune an encoder: batches by length, the model, the summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from headway.base.devices import Machine
from headway.base.settings import override
from headway.bundle import Bundle, EncoderBundle
from headway.data.stream import Batch, Batches, ByLength, Indices
from headway.models import Bert
from headway.tasks.finetuning import copy_encoder, describe_shape
from headway.tasks.job import planned_steps, prepare_blocks, update_size
from headway.training import Objective, Stream


class EncoderJob(ABC):
    """A `Job` that fine-tunes an encoder. A subclass defines the batches and the head.

    unit: the word for the training sequences. targets: the word for what the loss counts. config:
    the configuration of the run. start: the encoder. lengths: the lengths of all training
    sequences. least, passes: as in `planned_steps`. decided: further settings that follow from the
    data.
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
        self.train_batches = Batches(
            ByLength(lengths, training.batch_size, training.seed),
            lambda chosen, epoch: self.batch(chosen),
            machine.device,
        )
        steps = planned_steps(training, self.train_batches.batches_per_epoch, least, passes)
        self.config = override(config, {**steps, **(decided or {})}, f"the {self.unit}")

    @property
    def pad(self) -> int:
        """The padding token of shorter sequences in a batch."""
        return self.start.tokenizer.special_tokens.pad

    @abstractmethod
    def batch(self, chosen: Indices) -> Batch:
        """Return the training sequences with these indices as a batch."""

    @abstractmethod
    def with_head(self, bert: Bert) -> nn.Module:
        """Return the model to train, with a new head on a copy of the encoder."""

    @abstractmethod
    def bundle(self, model: Any) -> Bundle:
        """Return the bundle of the model, in which it is used and saved."""

    def build(self) -> nn.Module:
        """Build the untrained model; freeze, checkpoint or compile it as the settings require."""
        bert = copy_encoder(self.start, self.config.model.dropout)
        model = self.with_head(bert)
        prepare_blocks(model, self.config.training, self.config.machine)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        """Yield batches from this epoch and position on, endlessly."""
        return self.train_batches.stream(epoch, position)

    @property
    def described(self) -> str:
        """A description of the model for the terminal."""
        return describe_shape(self.start)

    def plan(self) -> dict[str, Any]:
        """Summarise model and batches for the terminal."""
        training = self.config.training
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": self.described,
            "batches": f"{examples:,} {self.unit}",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": self.targets,
        }
