"""Next-token cross-entropy of running text: what language models learn (lectures 3.11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headway.attention import Documents
from headway.models import GPT
from headway.shapes import Int, Tensor
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_sum

IGNORED = -1


@runtime_checkable
class TextBatch(Protocol):
    """Rows of text. targets: what follows each of `tokens`, -1 where nothing is asked. lengths: of
    the documents packed into each row; None where a row is one text."""

    @property
    def tokens(self) -> Int[Tensor, "B T"]: ...
    @property
    def targets(self) -> Int[Tensor, "B T"]: ...
    @property
    def lengths(self) -> tuple[tuple[int, ...], ...] | None: ...


@dataclass(frozen=True)
class TextObjective:
    """-sum_t log P(x_t+1 | x_1 ... x_t), over the targets that are not -1.

    Of packed rows each document is predicted from itself alone. Radford et al. 2018, equation 1.
    """

    def __call__(self, model: GPT, batch: TextBatch) -> Loss:
        documents = None
        if batch.lengths is not None:
            documents = Documents(batch.lengths, batch.tokens.device)
        hidden = model.hidden(batch.tokens, documents)
        asked = batch.targets != IGNORED  # B T
        targets = batch.targets[asked]
        total, nats = cross_entropy_sum(hidden[asked], model.output.weight, targets)
        return Loss(total, nats, len(targets))
