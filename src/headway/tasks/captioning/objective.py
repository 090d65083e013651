"""Captioning by teacher forcing: predict the next token from the image and the true tokens."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.transfers import positions_where
from headway.models import Captioner
from headway.tasks.captioning.batches import CaptionBatch
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of


@dataclass(frozen=True)
class CaptionObjective:
    """Label-smoothed cross-entropy of all tokens of the captions, without padding.

    Vinyals et al. 2015, equation 13; smoothing as Vaswani et al. 2017, section 5.4.
    """

    smoothing: float = 0.0

    def __call__(self, model: Captioner, batch: CaptionBatch) -> Loss:
        memory = model.encode(batch.images)[batch.of]
        hidden = model.decode(batch.read, memory)
        real = positions_where(batch.real, batch.count)
        targets = batch.targets.flatten()[real]
        total, nats = cross_entropy_of(model)(
            hidden.flatten(0, 1).index_select(0, real), model.output.weight, targets, self.smoothing
        )
        return Loss(total, nats, len(targets))
