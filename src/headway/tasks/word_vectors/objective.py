"""Objectives of word vectors: negative sampling, and next-word prediction."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor
from headway.models import NextWord, WordVectors
from headway.tasks.word_vectors.context_windows import BLOCK, WordBatch
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of


@dataclass(frozen=True)
class NegativeSampling:
    """Negative sampling: -log s(C[o] . h) - k E_n[log s(-C[n] . h)] for each bag and target word.

    h is the mean of a bag of words, o a target, n a noise word, s the logistic function. Mikolov et
    al. 2013b, equation 4. The expectation is estimated by the mean over 64 sampled words that 64
    bags of a batch share, so that it is a matrix product (shared noise: Ji et al. 2016,
    "Parallelizing Word2Vec in Shared and Distributed Memory"). negatives: k, the weight of the
    expectation.
    """

    negatives: int = 5

    def __call__(self, model: WordVectors, batch: WordBatch) -> Loss:
        h = model.hidden(batch.words, batch.starts)
        total = negative_sampling_sum(
            h, model.context.weight, (batch.targets, batch.owner, batch.sampled), self.negatives
        )
        return Loss(total, total.detach(), len(batch.targets))


def negative_sampling_sum(
    h: Float[Tensor, "B D"],
    contexts: Float[Tensor, "V D"],
    words: tuple[Int[Tensor, " P"], Int[Tensor, " P"], Int[Tensor, "G M"]],
    negatives: int,
) -> Float[Tensor, ""]:
    """Return the sum of the loss of `NegativeSampling` over P pairs of a bag and a target.

    words: targets, owners and sampled words (`WordBatch`).
    """
    targets, owner, sampled = words
    scores = (h[owner] * F.embedding(targets, contexts)).sum(-1)  # P
    pairs = h.new_zeros(len(h)).index_add(0, owner, h.new_ones(len(owner)))  # B
    missing = len(sampled) * BLOCK - len(h)
    blocks = F.pad(h, (0, 0, 0, missing)).view(len(sampled), BLOCK, -1)  # G 64 D
    weights = F.pad(pairs, (0, missing)).view(len(sampled), BLOCK, 1)
    noise = blocks @ F.embedding(sampled, contexts).transpose(1, 2)  # G 64 M
    negative = (F.softplus(noise) * weights).sum() * (negatives / sampled.shape[1])
    return F.softplus(-scores).sum() + negative


@dataclass(frozen=True)
class NextWordObjective:
    """Next-word loss: -log P(next | word), with a softmax over the vocabulary."""

    def __call__(self, model: NextWord, batch: WordBatch) -> Loss:
        total, nats = cross_entropy_of(model)(
            model.hidden(batch.words), model.output.weight, batch.targets
        )
        return Loss(total, nats, len(batch.targets))
