"""Translation by teacher forcing: predict the next token from the source and the true tokens."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.transfers import positions_where
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of, with_bias


@dataclass(frozen=True)
class TranslationObjective:
    """Label-smoothed cross-entropy of all target tokens, without padding.

    pad: id of the padding token. Vaswani et al. 2017, section 5.4 (smoothing 0.1).
    """

    pad: int
    smoothing: float = 0.0

    def __call__(self, model: Translator, batch: TranslationBatch) -> Loss:
        memory = model.encode(batch.source, batch.source_keys)
        hidden = model.decode(batch.target_in, memory, batch.source_keys)
        real = positions_where(batch.target_out != self.pad, batch.count)
        targets = batch.target_out.flatten()[real]
        total, nats = cross_entropy_of(model)(
            *with_bias(hidden.flatten(0, 1).index_select(0, real), model.output),
            targets,
            self.smoothing,
        )
        return Loss(total, nats, len(targets))
