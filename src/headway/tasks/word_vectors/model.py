"""The bundle of word vectors: model and vocabulary, for nearest neighbours and analogies."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle import Neighbour, Probe, ProbeRequest, StoredBundle
from headway.bundle.arguments import checked
from headway.models import NextWord, WordVectors
from headway.text import Vocabulary


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
