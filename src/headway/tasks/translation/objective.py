"""The objectives of a translator.

Teacher forcing: predict the next token from the source and the true tokens.

R-Drop: two passes with different dropout must agree.

    L = (NLL_1 + NLL_2) / 2 + alpha / 4 (KL(p_1 || p_2) + KL(p_2 || p_1))

p_1 and p_2 are the distributions of one position in two passes, which differ in the units that
dropout leaves out. Without dropout they are equal, and L is the cross-entropy. Liang et al. 2021,
equations 2 to 4, divided by 2, so that the loss of one pass and that of two have the same scale.

Guided alignment: a head of cross-attention attends to the words that a target word translates.

    L = L_translation - w sum over t, s of G[t, s] log A[t, s]

A[t, s] is the attention of one head of one decoder layer on source token s when target token t is
predicted. G[t, s] is the gold alignment; its row is a distribution over the source tokens, or 0 if
the target word has no link (`word_alignment.py`). The second term is their cross-entropy, a sum
over target tokens as the first is. Chen et al. 2016; one head of one layer: Garg et al. 2019.
"""

from dataclasses import dataclass
from typing import Any

import torch

from headway.attention import Kernel, at_attention
from headway.base.shapes import Float, Tensor
from headway.base.transfers import positions_where
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch
from headway.training.objectives.contract import Loss, Objective
from headway.training.objectives.cross_entropy import cross_entropy_of, with_bias
from headway.transforms.recompute import check_keeps_activations


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


@dataclass(frozen=True)
class RDropObjective:
    """The loss of R-Drop, with label smoothing; it takes twice the time of one pass.

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


EPSILON = 1e-8
"""Added to the weights before the logarithm, so that a weight of 0 has a finite loss."""


@dataclass(frozen=True)
class GuidedAlignmentObjective:
    """The loss of guided alignment: a translation objective and the cross-entropy of the first
    cross-attention head of a layer.

    translation: may pass the batch through the model several times (R-Drop); the cross-entropy is
    then their mean. layer: name of the attention layer ("decoder.blocks.2.cross"). weight: w.
    """

    translation: Objective
    layer: str
    weight: float

    def __call__(self, model: Translator, batch: TranslationBatch) -> Loss:
        """Return the loss. Raises ValueError for a batch without alignment, and UsageError if the
        blocks of the model recompute their activations."""
        if batch.alignment is None:
            raise ValueError("guided alignment needs a batch with an alignment")
        check_keeps_activations(model, "guided alignment")
        heads: list[Tensor] = []  # of each call: B T S, or with input feeding B 1 S

        def keep(name: str, kernel: Kernel, inputs: tuple[Any, ...], output: Tensor) -> None:
            q, k, _, mask, *rest = inputs
            with torch.autocast(q.device.type, enabled=False):
                heads.append(kernel.weights(q, k, mask, *rest)[:, 0])

        with at_attention(model, [self.layer], keep):
            loss = self.translation(model, batch)
        attention = torch.cat(heads, dim=1)
        attention = attention.view(-1, *batch.alignment.shape)  # one or several passes
        misaligned = alignment_loss(attention, batch.alignment)
        return Loss(loss.total + self.weight * misaligned, loss.nats, loss.count)


def alignment_loss(
    attention: Float[Tensor, "P B T S"], gold: Float[Tensor, "B T S"]
) -> Float[Tensor, ""]:
    """Return -sum over b, t, s of gold log attention, as the mean over P passes."""
    return -(gold * (attention + EPSILON).log()).sum() / len(attention)
