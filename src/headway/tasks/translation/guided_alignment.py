"""Guided alignment: a head of cross-attention attends to the words that a target word translates.

    L = L_translation - w sum over t, s of G[t, s] log A[t, s]

A[t, s] is the attention of one head of one decoder layer on source token s when target token t is
predicted. G[t, s] is the gold alignment; its row is a distribution over the source tokens, or 0 if
the target word has no link (`word_alignment.py`). The second term is their cross-entropy, a sum
over target tokens as the first is. Chen et al. 2016; one head of one layer: Garg et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from headway.attention import Kernel, at_attention
from headway.base.shapes import Float, Tensor
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch
from headway.training.objectives.contract import Loss, Objective
from headway.transforms.recompute import check_keeps_activations

EPSILON = 1e-8
"""Added to the weights before the logarithm, so that a weight of 0 has a finite loss."""


@dataclass(frozen=True)
class GuidedAlignmentObjective:
    """The loss above: a translation objective and the cross-entropy of the first cross-attention
    head of a layer.

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
