"""Word embeddings: score(target | context) = C[target] . mean of E[w] over the context words w.

Each word of the vocabulary gets a vector, a row of E, learned by predicting words from words near
them. Words that occur in the same contexts get similar vectors.

>>> import torch
>>> from headway.models import NextWord, WordsConfig
>>> model = NextWord(WordsConfig(kind="next-word", dim=2, vocabulary=3))
>>> _ = model.embedding.weight.data.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
>>> words = torch.tensor([0, 2, 2])  # three words
>>> model.hidden(words).detach()  # rows 0, 2 and 2 of E
tensor([[1., 2.],
        [5., 6.],
        [5., 6.]])
>>> torch.equal(model.one_hot(words), model.hidden(words))  # the product of one-hot vectors and E
True
>>> model(words).softmax(-1).sum(-1).detach().round(decimals=2)  # distributions over words
tensor([1., 1., 1.])
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import nn

from headway.base.settings import VOCABULARY, WIDTH, count, setting
from headway.base.shapes import Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """Architecture of a `NextWord` or a `WordVectors`."""

    kind: Literal["skip-gram", "cbow", "next-word"] = setting(
        "skip-gram",
        "skip-gram: each word predicts its neighbours; cbow: the neighbours predict the word; "
        "next-word: each word predicts the next, with a softmax over the vocabulary",
    )
    dim: int = count(100, "dimension of the word vectors", WIDTH)
    vocabulary: int = setting(
        30_000, "vocabulary size, including the sentence boundary", gt=1, le=VOCABULARY
    )

    family: ClassVar[str] = "words"
    sizes: ClassVar[dict[str, dict[str, int | float | str]]] = {
        "tiny": {"dim": 2},
        "small": {"dim": 100},
        "base": {"dim": 300},
    }


class NextWord(nn.Module):
    """P(next word | word) = softmax(W E[word]): one-hot -> linear -> linear -> softmax.

    This is the network of the lecture: that of Bengio et al. 2003 with one word of context and no
    hidden layer. The product of a one-hot vector of length V with the matrix E (V x D) is a row of
    E, so `hidden` looks up the row instead. `one_hot` computes the product.
    """

    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.output = nn.Linear(config.dim, config.vocabulary, bias=False)
        if not self.output.weight.is_meta:
            self.init_weights()

    def init_weights(self) -> None:
        """Initialise with N(0, 0.1^2): all words start with similar predictions."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.normal_(self.output.weight, std=0.1)

    @property
    def vectors(self) -> Float[Tensor, "V D"]:
        """The word vectors: the matrix E."""
        return self.embedding.weight

    def hidden(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """Return onehot(word) E, which is row `word` of E."""
        return self.embedding(words)

    def one_hot(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """Return the same as a matrix product: V inputs, all 0 but one, into D linear units."""
        inputs = F.one_hot(words, self.config.vocabulary).to(self.vectors.dtype)  # B V
        return inputs @ self.vectors

    def forward(self, words: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """Return the logits of the next word."""
        return self.output(self.hidden(words))


class WordVectors(nn.Module):
    """score(target | bag) = C[target] . mean of E[word] over the words of the bag.

    E (V x D) has the vectors of words as context, which are the word vectors; C (V x D) has their
    vectors as predicted words. The bag is one word in skip-gram and the neighbours of the predicted
    word in CBOW (Mikolov et al. 2013a, sections 3.1 and 3.2).
    """

    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.context = nn.Embedding(config.vocabulary, config.dim)
        if not self.context.weight.is_meta:
            self.init_weights()

    def init_weights(self) -> None:
        """Initialise as word2vec: small uniform E, and C = 0, so that all scores are 0."""
        nn.init.uniform_(self.embedding.weight, -0.5 / self.config.dim, 0.5 / self.config.dim)
        nn.init.zeros_(self.context.weight)

    @property
    def vectors(self) -> Float[Tensor, "V D"]:
        """The word vectors: the matrix E."""
        return self.embedding.weight

    def hidden(self, words: Int[Tensor, " I"], starts: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """Return the mean vector of each bag; bag b is words[starts[b] : starts[b + 1]]."""
        return F.embedding_bag(words, self.vectors, starts, mode="mean")


def words_model(config: WordsConfig) -> NextWord | WordVectors:
    """Return a new model of the kind that `config.kind` names."""
    return NextWord(config) if config.kind == "next-word" else WordVectors(config)
