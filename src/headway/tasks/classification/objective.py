"""Classification and regression of texts, with a language-modelling loss as in GPT-1."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Tensor
from headway.base.transfers import positions_where, upload
from headway.models import BertClassifier, TextClassifier
from headway.tasks.classification.data import LabelledBatch
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import next_token_sum

AnyClassifier = TextClassifier | BertClassifier
"""A classifier of texts: model(tokens, keys, types) -> logits."""


@dataclass(frozen=True)
class ClassificationObjective:
    """Classification loss: -w log P(class | text) + auxiliary * mean_t -log P(x_t | x_<t).

    auxiliary: weight of the language-modelling loss (Radford et al. 2018, equations 3 to 5, with
    0.5). Their equation 1 sums over the tokens; their released program takes the mean, so that long
    texts do not outweigh their class. A text of one token has no language-modelling loss. An
    encoder predicts no next token: its auxiliary weight is 0 (Devlin et al. 2019, section 4.1).
    weights: w of each class; if empty, 1 for all. Each text counts as one target.
    """

    auxiliary: float = 0.5
    weights: tuple[float, ...] = ()

    def __call__(self, model: AnyClassifier, batch: LabelledBatch) -> Loss:
        logits, auxiliary = _logits(model, batch, self.auxiliary)
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        nats = losses.detach().sum()
        if self.weights:
            weights = upload(torch.tensor(self.weights, dtype=losses.dtype), losses.device)
            losses = losses * weights[batch.targets]
        return Loss(losses.sum() + auxiliary, nats, len(batch.targets))


@dataclass(frozen=True)
class RegressionObjective:
    """Regression loss: (y - z)^2 + auxiliary * mean_t -log P(x_t | x_<t), with the only logit z.

    Devlin et al. 2019, section 4.1 (STS-B). `nats` of the loss is the sum of the squares.
    """

    auxiliary: float = 0.0

    def __call__(self, model: AnyClassifier, batch: LabelledBatch) -> Loss:
        logits, auxiliary = _logits(model, batch, self.auxiliary)
        squares = (logits[:, 0] - batch.targets).square().sum()
        return Loss(squares + auxiliary, squares.detach(), len(batch.targets))


def _logits(
    model: AnyClassifier, batch: LabelledBatch, auxiliary: float
) -> tuple[Float[Tensor, "B C"], Tensor | float]:
    """Return the logits of the classes, and the weighted language-modelling loss or 0."""
    if not auxiliary:
        return model(batch.tokens, batch.keys, batch.types).float(), 0.0
    if not isinstance(model, TextClassifier):
        raise ValueError(
            f"{auxiliary=} must be 0 for {type(model).__name__}: an encoder predicts no next word"
        )
    hidden = model.gpt.hidden(batch.tokens)
    logits = model.classify(hidden, batch.keys).float()
    return logits, auxiliary * _language_model(model, hidden, batch)


def _language_model(
    model: TextClassifier, hidden: Float[Tensor, "B T D"], batch: LabelledBatch
) -> Float[Tensor, ""]:
    """Return the language-modelling loss: the sum over texts of the mean over their tokens."""
    predicted = batch.keys[:, 1:]  # B T-1
    weights = (1 / predicted.sum(1).clamp(min=1))[:, None].expand(predicted.shape)
    # The first token of each text is not predicted.
    count = None if batch.num_tokens is None else batch.num_tokens - len(batch.tokens)
    real = positions_where(predicted, count)
    total, _ = next_token_sum(
        model.gpt,
        hidden[:, :-1].flatten(0, 1).index_select(0, real),
        batch.tokens[:, 1:].flatten()[real],
        weights=weights.flatten()[real],
    )
    return total
