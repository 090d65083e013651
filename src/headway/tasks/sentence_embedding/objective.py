"""Sentence embeddings by contrastive learning: texts of the same meaning get similar vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.base.shapes import Bool, Float, Tensor
from headway.blocks import Pooling, pool_text
from headway.models import Bert
from headway.tasks.sentence_embedding.data import SimilarBatch
from headway.training.objectives.contract import FramedTexts, Loss


def text_vectors(
    model: Bert, texts: FramedTexts, pooling: Pooling = "mean"
) -> Float[Tensor, "B D"]:
    """Return one vector of length 1 per text: the mean of its tokens' states, or that of [CLS].

    Reimers and Gurevych 2019, section 3.
    """
    hidden = model.encode(texts.tokens, texts.keys, texts.types)
    return F.normalize(pool_text(hidden, texts.keys, pooling).float(), dim=-1)


@dataclass(frozen=True)
class ContrastiveObjective:
    """In-batch negatives: -log exp(s cos(a_i, b_i)) / sum_j exp(s cos(a_i, b_j)).

    Multiple negatives ranking: among all second texts b_j of the batch, predict the one that is
    paired with the first text a_i. Pairs that share a text are no negatives of each other. scale:
    s, the inverse temperature. symmetric: the mean of this loss and of predicting a_i from b_i.
    Henderson et al. 2017, section 4.4, with s times the cosine instead of their dot product; van
    den Oord et al. 2018, equation 4 (InfoNCE). Negatives are from the same micro-batch: gradient
    accumulation does not add negatives.
    """

    scale: float = 20.0
    symmetric: bool = False
    pooling: Pooling = "mean"

    def __call__(self, model: Bert, batch: SimilarBatch) -> Loss:
        first = text_vectors(model, batch.first, self.pooling)
        second = text_vectors(model, batch.second, self.pooling)
        total = ranking_sum(self.scale * first @ second.T, batch.shared)
        if self.symmetric:
            total = (total + ranking_sum(self.scale * second @ first.T, batch.shared)) / 2
        return Loss(total, total.detach(), len(first))


def ranking_sum(scores: Float[Tensor, "B B"], left_out: Bool[Tensor, "B B"]) -> Float[Tensor, ""]:
    """Return -sum_i log softmax_j(scores_ij)_i, over the j that are not left out."""
    targets = torch.arange(len(scores), device=scores.device)
    return F.cross_entropy(scores.masked_fill(left_out, -torch.inf), targets, reduction="sum")


@dataclass(frozen=True)
class CosineObjective:
    """Regression of similarity: (cos(a_i, b_i) - score_i)^2, with scores from 0 to 1.

    Reimers and Gurevych 2019, section 3 (regression objective).
    """

    pooling: Pooling = "mean"

    def __call__(self, model: Bert, batch: SimilarBatch) -> Loss:
        if batch.scores is None:
            raise ValueError("the pairs of the batch have no scores, which this objective needs")
        first = text_vectors(model, batch.first, self.pooling)
        second = text_vectors(model, batch.second, self.pooling)
        total = ((first * second).sum(-1) - batch.scores).square().sum()
        return Loss(total, total.detach(), len(first))
