"""Encoder heads: v = mean of h_t or tanh(W h_1 + b), and logits = E norm(activation(W h + b)) + c.

An encoder gives one vector h_t for each token. Pooling reduces them to one vector v for the text;
the head of masked language modelling turns the vector of a masked token into logits of the word.

>>> import torch
>>> from headway.blocks import mean_pool, pool_text
>>> hidden = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])  # B T D = 1 3 2: three words
>>> keys = torch.tensor([[True, True, False]])  # the third is padding
>>> mean_pool(hidden, keys)
tensor([[2., 3.]])
>>> pool_text(hidden, keys, "first")  # the vector of [CLS]
tensor([[1., 2.]])
>>> pool_text(hidden, keys, "last")  # the vector of the last word
tensor([[3., 4.]])
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.base.shapes import Bool, Float, Tensor

Pooling = Literal["mean", "first", "last"]
"""How the vectors of a text are reduced to one: "mean", "first", the vector of [CLS], or "last",
that of the last token, which alone depends on the whole text in a causal model."""


class Pooler(nn.Module):
    """norm(activation(W h_1 + b)): one vector for a text, computed from its first token, [CLS].

    The activation is tanh in the released code of Devlin et al. 2019. norm: only ModernBERT has
    one; None leaves the vector as it is.
    """

    def __init__(
        self,
        model_dim: int,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
        norm: nn.Module | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(model_dim, model_dim, bias=bias)
        self.activation = activation
        self.norm = nn.Identity() if norm is None else norm

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return self.each(hidden[:, 0])

    def each(self, vectors: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return norm(activation(W v + b)) of each vector v."""
        return self.norm(self.activation(self.project(vectors)))


class Dense(nn.Module):
    """f(W v + b): a layer on the vector of a text, after pooling. f is tanh in LaBSE (Feng et al.
    2022); activation="none" leaves it out."""

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        activation: Literal["tanh", "none"] = "tanh",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=bias)
        self.activation: Literal["tanh", "none"] = activation

    def forward(self, vectors: Float[Tensor, "B D"]) -> Float[Tensor, "B D_out"]:
        projected = self.project(vectors)
        return projected.tanh() if self.activation == "tanh" else projected


class AttentionPooler(nn.Module):
    """v + feedforward(norm(v)), v = attention(q, h): one vector that a learned query collects.

    The query q attends to all tokens, so that the model learns from which of them the vector of a
    sequence is made. Lee et al. 2019, section 3.2 (pooling by multi-head attention); the image
    encoder of SigLIP, Zhai et al. 2023.
    """

    def __init__(
        self, attention: MultiHeadAttention, feedforward: nn.Module, norm: nn.Module
    ) -> None:
        super().__init__()
        width = attention.query.in_features
        self.query = nn.Parameter(torch.zeros(1, width))
        self.attention = attention
        self.feedforward = feedforward
        self.norm = norm

    def init_weights(self) -> None:
        nn.init.normal_(self.query, std=0.02)

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        query = self.query.to(hidden.dtype).expand(len(hidden), 1, -1)  # 1 D -> B 1 D
        vectors = self.attention(query, hidden, Mask())  # B 1 D
        pooled: Tensor = vectors + self.feedforward(self.norm(vectors))
        return pooled[:, 0]


class MaskedTokenHead(nn.Module):
    """E norm(activation(W h + b)) + c: logits of the word at a masked position.

    E is the embedding matrix, to which the model ties `output.weight`; W projects to its width.
    Devlin et al. 2019, section 3.1 and released code.
    """

    def __init__(
        self,
        model_dim: int,
        embedding_dim: int,
        vocabulary: int,
        activation: Callable[[Tensor], Tensor],
        norm: nn.Module,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.transform = nn.Linear(model_dim, embedding_dim, bias=bias)
        self.activation = activation
        self.norm = norm
        self.output = nn.Linear(embedding_dim, vocabulary)

    def forward(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self.output(self.norm(self.activation(self.transform(hidden))))


class ReplacedTokenHead(nn.Module):
    """w . activation(W h + b) + c: the logit that a token was replaced.

    ELECTRA is trained to detect the tokens that a small masked language model has replaced, so that
    it learns from every token, not only from masked ones. Clark et al. 2020, section 2.
    """

    def __init__(self, model_dim: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.transform = nn.Linear(model_dim, model_dim)
        self.activation = activation
        self.output = nn.Linear(model_dim, 1)

    def forward(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        return self.output(self.activation(self.transform(hidden))).squeeze(-1)


def pool_text(
    hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"], pooling: Pooling
) -> Float[Tensor, "B D"]:
    """Return one vector for each text: `mean_pool`, or the vector of its first or last token.

    keys: True for real tokens, False for padding, which is at the right for "last".
    """
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), keys.sum(1) - 1]
    return mean_pool(hidden, keys) if pooling == "mean" else hidden[:, 0]


def mean_pool(hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """Return the mean over the real tokens of each text. Reimers and Gurevych 2019, section 3."""
    real = keys.to(hidden.dtype)[..., None]  # 1 for real tokens, 0 for padding
    return (hidden * real).sum(1) / real.sum(1)
