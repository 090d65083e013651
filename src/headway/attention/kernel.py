"""Attention: weights = softmax(scores(Q, K)), context = weights V.

A kernel turns queries, keys and values into context vectors. Each query is compared with every key
(scores), the scores become weights that sum to 1 (softmax), and the context is the sum of the
values with these weights. Kernels differ in their scores; the scaled dot product is the reference.

Three words, one head, vectors of width 2; the query of each word is its key:

>>> import torch
>>> from headway.attention import Mask, ScaledDot
>>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])  # B H T K = 1 1 3 2
>>> ScaledDot().weights(words, words, Mask())[0, 0].round(decimals=2)
tensor([[0.4000, 0.2000, 0.4000],
        [0.2000, 0.4000, 0.4000],
        [0.2500, 0.2500, 0.5000]])
"""

import abc
import math
from typing import ClassVar

import torch
from torch import nn

from headway.attention.masks import Mask
from headway.base.shapes import Bool, Float, Tensor

Queries = Float[Tensor, "B H T Kq"]
Keys = Float[Tensor, "B G S K"]
Values = Float[Tensor, "B G S Kv"]
Bias = Float[Tensor, "#B #H T S"] | None
"""Added to the score of each query with each key."""
Weights = Float[Tensor, "B H T S"]
Contexts = Float[Tensor, "B H T Kv"]


class Kernel(nn.Module, abc.ABC):
    """Contract of a kernel: context from queries, keys and values.

    Keys and values may have G heads, fewer than the H of the queries: each is then shared by H / G
    query heads (`spread`). A query that may attend to no key gets weights 0 and context 0, never
    NaN.

    `forward` may compute the context in any way; `weights` returns the weights in float32 or
    better, and is called only while attention is recorded (`record_attention`).

    `normalised`: whether the weights of a query are positive and sum to 1.
    """

    normalised: ClassVar[bool] = True

    @abc.abstractmethod
    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        """Return the context: for each query the weighted sum of the values."""

    @abc.abstractmethod
    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        """Return the weight of each key for each query."""


def spread(x: Float[Tensor, "B G S K"], num_heads: int) -> Float[Tensor, "B H S K"]:
    """Repeat each head of keys or values for the H / G query heads that share it.

    Query head h reads head h // (H / G).
    """
    share = num_heads // x.shape[1]
    return x if share == 1 else x.repeat_interleave(share, dim=1)


def masked_softmax(
    scores: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"]
) -> Float[Tensor, "B H T S"]:
    """Softmax over the keys that a query may attend to.

    The mask is applied here: a hidden score becomes -inf, so its weight becomes exp(-inf) = 0. A
    query without any key would be 0/0; its scores are set to 0 before the softmax and its weights
    to 0 after it, so that neither they nor their gradients are NaN.
    """
    empty = ~allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


class SoftmaxKernel(Kernel):
    """softmax(scores(Q, K) + bias) V. A kernel with a softmax defines its `scores` only."""

    @abc.abstractmethod
    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        """Return the score of each key for each query, before mask and softmax."""

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        weights = self._weights(q, k, mask, bias)
        return weights.to(v.dtype) @ spread(v, q.shape[1])

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        exact = torch.promote_types(q.dtype, torch.float32)
        return self._weights(q.to(exact), k.to(exact), mask, bias)

    def _weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        scores = self.scores(q, spread(k, q.shape[1]))
        scores = scores if bias is None else scores + bias
        return self.normalise(scores, mask.dense(q.shape[2], k.shape[2], q.device))

    def normalise(
        self, scores: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Return the weights of the keys for their scores."""
        return masked_softmax(scores, allowed)


class ScaledDot(SoftmaxKernel):
    """softmax(Q K^T / sqrt(K)) V.

    Why the division: the dot product of two vectors with K independent entries of variance 1 has
    variance K. Unscaled, large scores saturate the softmax and its gradient vanishes
    (`headway lecture scaling`). Vaswani et al. 2017, section 3.2.1.
    """

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
