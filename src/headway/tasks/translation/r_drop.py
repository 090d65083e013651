"""R-Drop: two passes with different dropout must agree.

    L = (NLL_1 + NLL_2) / 2 + alpha / 4 (KL(p_1 || p_2) + KL(p_2 || p_1))

p_1 and p_2 are the distributions of one position in two passes, which differ in the units that
dropout leaves out. Without dropout they are equal, and L is the cross-entropy. Liang et al. 2021,
equations 2 to 4, divided by 2, so that the loss of one pass and that of two have the same scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Tensor
from headway.base.transfers import positions_where
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class RDropObjective:
    """The loss above for a translator, with label smoothing; it takes twice the time of one pass.

    pad: id of the padding token. alpha: weight of the divergence; 5 in the paper's translators.
    """

    pad: int
    smoothing: float
    alpha: float

    def __call__(self, model: Translator, batch: TranslationBatch) -> Loss:
        keys = batch.source_keys
        twice_keys = None if keys is None else torch.cat((keys, keys))
        memory = model.encode(torch.cat((batch.source, batch.source)), twice_keys)
        read = torch.cat((batch.target_in, batch.target_in))
        hidden = model.decode(read, memory, twice_keys)
        real = positions_where(batch.target_out != self.pad, batch.count)
        targets = batch.target_out.flatten()[real]
        first, second = (
            model.output(half.flatten(0, 1).index_select(0, real)).float().log_softmax(-1)
            for half in hidden.chunk(2)
        )
        nats = -torch.stack((first, second)).mean(0).gather(1, targets[:, None]).sum()
        uniform = -(first + second).mean(-1).sum() / 2
        total = (1 - self.smoothing) * nats + self.smoothing * uniform
        total = total + self.alpha / 4 * divergences(first, second)
        return Loss(total, nats.detach(), len(targets))


def divergences(first: Float[Tensor, "N V"], second: Float[Tensor, "N V"]) -> Float[Tensor, ""]:
    """Return the sum over N of KL(p || q) + KL(q || p) = sum_v (p_v - q_v) (log p_v - log q_v)."""
    return ((first.exp() - second.exp()) * (first - second)).sum()
