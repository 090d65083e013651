"""The bundle of word vectors, and its objectives: negative sampling, and next-word prediction."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import Neighbour, Probe, ProbeRequest, StoredBundle
from headway.bundle.arguments import checked
from headway.models import NextWord, WordVectors
from headway.tasks.word_vectors.context_windows import BLOCK, WordBatch
from headway.text import Vocabulary
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of


class WordsBundle(StoredBundle):
    """Word vectors with their vocabulary. Words are case-insensitive."""

    kind: ClassVar[str] = "word model"
    reader_class = Vocabulary
    model: NextWord | WordVectors

    def __init__(self, model: NextWord | WordVectors, vocabulary: Vocabulary) -> None:
        if vocabulary.size != model.config.vocabulary:
            raise DataError(
                f"the vocabulary has {vocabulary.size:,} entries, but the vocabulary size of the "
                f"model is {model.config.vocabulary:,}",
                hint="use the vocabulary with which the model was trained",
            )
        super().__init__(model, vocabulary)
        self.vocabulary = vocabulary

    @property
    def vectors(self) -> Float[Tensor, "V D"]:
        """The vectors of `vocabulary.words`; row 0 is the boundary between sentences."""
        return self.model.vectors.detach()

    def vector(self, word: str) -> Float[Tensor, " D"]:
        """Return the vector of a word. Raises UsageError for an unknown word, as all methods."""
        return self.vectors[self.vocabulary.id_of(word)].clone()

    @checked
    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of the vectors of two words."""
        return float(F.cosine_similarity(self.vector(a), self.vector(b), dim=0))

    @checked
    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the `count` nearest words by cosine, without the word itself, nearest first."""
        return self._near(self.vector(word), [word], count)

    @checked
    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[Neighbour]:
        """Solve the analogy "a is to b as c is to ?" by the words nearest to b - a + c.

        The three vectors are normalised to length 1 first; the three words are left out. Mikolov et
        al. 2013c, section 4.
        """
        unit_a, unit_b, unit_c = (F.normalize(self.vector(word), dim=0) for word in (a, b, c))
        return self._near(unit_b - unit_a + unit_c, [a, b, c], count)

    def _near(self, query: Float[Tensor, " D"], without: list[str], count: int) -> list[Neighbour]:
        if count < 1:
            raise UsageError(f"{count=} must be at least 1")
        cosines = F.normalize(self.vectors, dim=1) @ F.normalize(query, dim=0)  # V
        cosines[[0, *(self.vocabulary.id_of(word) for word in without)]] = -torch.inf
        best = cosines.topk(min(count, int(cosines.isfinite().sum())))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Neighbour(self.vocabulary.words[i], cosine) for i, cosine in pairs]

    def _probe(self, request: ProbeRequest) -> Probe:
        raise UsageError(
            f"a {self.kind} has no attention to inspect",
            hint="name a model of another kind than word vectors",
        )


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
