"""Classes of texts, with the language model's own loss beside them: GPT-1's fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.labelled import LabelledBatch
from headway.models import TextClassifier
from headway.shapes import Float, Tensor
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_sum


@dataclass(frozen=True)
class ClassificationObjective:
    """-log P(class | text) + auxiliary * the text's mean -log P(x_t | x_<t), over its tokens.

    Radford et al. 2018, equations 3 to 5, auxiliary 0.5. Equation 1 sums over the tokens; the mean
    is what their released program takes, and keeps long texts from drowning their class. A text of
    one token predicts none. The target that is counted is the text.
    """

    auxiliary: float = 0.5

    def __call__(self, model: TextClassifier, batch: LabelledBatch) -> Loss:
        hidden = model.gpt.hidden(batch.tokens)
        total = F.cross_entropy(
            model.classify(hidden, batch.keys).float(), batch.classes, reduction="sum"
        )
        nats = total.detach()
        if self.auxiliary:
            total = total + self.auxiliary * _language_model(model, hidden, batch)
        return Loss(total, nats, len(batch.classes))


def _language_model(
    model: TextClassifier, hidden: Float[Tensor, "B T D"], batch: LabelledBatch
) -> Float[Tensor, ""]:
    """The sum over texts of the mean over their tokens."""
    real = batch.keys[:, 1:]  # B T-1: predicted tokens
    share = (1 / real.sum(1).clamp(min=1))[:, None].expand(real.shape)
    total, _ = cross_entropy_sum(
        hidden[:, :-1][real],
        model.gpt.output.weight,
        batch.tokens[:, 1:][real],
        weights=share[real],
    )
    return total
