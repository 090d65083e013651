"""What texts are: classes or numbers, beside a language model's own loss (GPT-1's fine-tuning)."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.labelled_texts import LabelledBatch
from headway.models import BertClassifier, TextClassifier
from headway.shapes import Float, Tensor
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of

AnyClassifier = TextClassifier | BertClassifier
"""What reads texts of known labels: model(tokens, keys, types) -> logits."""


@dataclass(frozen=True)
class ClassificationObjective:
    """-w log P(class | text) + auxiliary * the text's mean -log P(x_t | x_<t), over its tokens.

    Radford et al. 2018, equations 3 to 5, auxiliary 0.5. Equation 1 sums over the tokens; the mean
    is what their released program takes, and keeps long texts from drowning their class. A text of
    one token predicts none. The target that is counted is the text. An encoder predicts no next
    word: its auxiliary is 0 (Devlin et al. 2019, section 4.1). weights: w of each class, none for 1
    each.
    """

    auxiliary: float = 0.5
    weights: tuple[float, ...] = ()

    def __call__(self, model: AnyClassifier, batch: LabelledBatch) -> Loss:
        logits, surprise = _read(model, batch, self.auxiliary)
        each = F.cross_entropy(logits, batch.targets, reduction="none")
        nats = each.detach().sum()
        if self.weights:
            each = each * each.new_tensor(self.weights)[batch.targets]
        return Loss(each.sum() + surprise, nats, len(batch.targets))


@dataclass(frozen=True)
class RegressionObjective:
    """(y - z)^2 + auxiliary * the text's mean -log P(x_t | x_<t), z the model's only output.

    Devlin et al. 2019, section 4.1 (STS-B). `nats` is the sum of the squares.
    """

    auxiliary: float = 0.0

    def __call__(self, model: AnyClassifier, batch: LabelledBatch) -> Loss:
        logits, surprise = _read(model, batch, self.auxiliary)
        squares = (logits[:, 0] - batch.targets).square().sum()
        return Loss(squares + surprise, squares.detach(), len(batch.targets))


def _read(
    model: AnyClassifier, batch: LabelledBatch, auxiliary: float
) -> tuple[Float[Tensor, "B C"], Tensor | float]:
    """The logits, and the share of the language model's loss; 0 where there is none."""
    if not auxiliary:
        return model(batch.tokens, batch.keys, batch.types).float(), 0.0
    if not isinstance(model, TextClassifier):
        raise ValueError(f"{auxiliary=}: an encoder predicts no next word")
    hidden = model.gpt.hidden(batch.tokens)
    logits = model.classify(hidden, batch.keys).float()
    return logits, auxiliary * _language_model(model, hidden, batch)


def _language_model(
    model: TextClassifier, hidden: Float[Tensor, "B T D"], batch: LabelledBatch
) -> Float[Tensor, ""]:
    """The sum over texts of the mean over their tokens."""
    real = batch.keys[:, 1:]  # B T-1: predicted tokens
    share = (1 / real.sum(1).clamp(min=1))[:, None].expand(real.shape)
    total, _ = cross_entropy_of(model)(
        hidden[:, :-1][real],
        model.gpt.output.weight,
        batch.tokens[:, 1:][real],
        weights=share[real],
    )
    return total
