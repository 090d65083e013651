"""Word-embedding networks (lectures 3.1): each word a vector, learned by predicting its company."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import nn

from headway.settings import VOCABULARY, WIDTH, setting
from headway.shapes import Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """Shape of a `NextWord` or a `WordVectors`."""

    kind: Literal["skip-gram", "cbow", "next-word"] = setting(
        "skip-gram",
        "skip-gram: a word predicts its neighbours; cbow: the neighbours predict the word; "
        "next-word: a word predicts the one after it, by a softmax over all words",
    )
    dim: int = setting(100, "length of a word's vector", gt=0, le=WIDTH)
    vocabulary: int = setting(
        30_000, "words, and the border between sentences", gt=1, le=VOCABULARY
    )

    family: ClassVar[str] = "words"
    sizes: ClassVar[dict[str, dict[str, int | float | str]]] = {
        "tiny": {"dim": 2},
        "small": {},
        "base": {"dim": 300},
    }


class NextWord(nn.Module):
    """P(next word | word) = softmax(E[word] W^T): one-hot -> linear -> linear -> softmax.

    The network of the lecture, and that of Bengio et al. 2003 with one word of context and no
    hidden layer. The input is a one-hot row of length V; times the matrix E (V x D) it is a row of
    E, so the product is never computed: the row is looked up. `one_hot` is the slow twin.
    """

    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.output = nn.Linear(config.dim, config.vocabulary, bias=False)
        if self.output.weight.device.type != "meta":
            self.init_weights()

    def init_weights(self) -> None:
        """Small, so that words start alike and part only where their company differs."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.normal_(self.output.weight, std=0.1)

    @property
    def vectors(self) -> Float[Tensor, "V D"]:
        return self.embedding.weight

    def hidden(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """onehot(word) E, which is row `word` of E."""
        found: Tensor = self.embedding(words)
        return found

    def one_hot(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """The same as the lecture draws it: V inputs, all 0 but one, into D linear nodes."""
        inputs = F.one_hot(words, self.config.vocabulary).to(self.vectors.dtype)  # B V
        return inputs @ self.vectors

    def forward(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """Logits of the next word."""
        logits: Tensor = self.output(self.hidden(words))
        return logits


class WordVectors(nn.Module):
    """Two tables: E (V x D), whose rows are the word vectors, and C (V x D) of words as predicted.

    score(target | bag) = C[target] . mean over the bag's words of E[word]. A bag of one word is
    skip-gram, a bag of a word's neighbours CBOW (Mikolov et al. 2013a, sections 3.1 and 3.2).
    """

    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.context = nn.Embedding(config.vocabulary, config.dim)
        if self.context.weight.device.type != "meta":
            self.init_weights()

    def init_weights(self) -> None:
        """As word2vec does: small vectors, and every prediction even."""
        nn.init.uniform_(self.embedding.weight, -0.5 / self.config.dim, 0.5 / self.config.dim)
        nn.init.zeros_(self.context.weight)

    @property
    def vectors(self) -> Float[Tensor, "V D"]:
        return self.embedding.weight

    def hidden(self, words: Int[Tensor, " I"], starts: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """The mean vector of each bag; bag b is words[starts[b] : starts[b + 1]]."""
        return F.embedding_bag(words, self.vectors, starts, mode="mean")


def words_model(config: WordsConfig) -> NextWord | WordVectors:
    """The model that `config.kind` names."""
    return NextWord(config) if config.kind == "next-word" else WordVectors(config)
