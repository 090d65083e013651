"""Language modelling: cross-entropy of the next token."""

from __future__ import annotations

from dataclasses import dataclass

from headway.attention import Documents
from headway.base.transfers import positions_where
from headway.data.packing import IGNORED, TextBatch
from headway.models import GPT
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of


@dataclass(frozen=True)
class TextObjective:
    """Next-token loss: -sum_t log P(x_t+1 | x_1 ... x_t), over the targets that are not -1.

    Packed documents do not attend to each other. Radford et al. 2018, equation 1.
    """

    def __call__(self, model: GPT, batch: TextBatch) -> Loss:
        documents = None
        if batch.lengths is not None:
            documents = Documents(batch.lengths, batch.tokens.device)
        hidden = model.hidden(batch.tokens, documents).flatten(0, 1)
        targets = batch.targets.flatten()
        if batch.count != len(targets):
            predicted = positions_where(targets != IGNORED, batch.count)
            hidden, targets = hidden.index_select(0, predicted), targets[predicted]
        total, nats = cross_entropy_of(model)(hidden, model.output.weight, targets)
        return Loss(total, nats, len(targets))
