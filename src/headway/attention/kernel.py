"""The kernel contract, and the reference that every fast kernel is measured against."""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import torch
from torch import nn

from headway.attention.masks import Mask
from headway.shapes import Bool, Float, Tensor


class Kernel(nn.Module, abc.ABC):
    """Turns queries, keys and values into context vectors: scores, weights, weighted sum.

    `forward` may compute in any way it likes; `weights` says what the weights were, in float32 or
    better, and is called only while somebody records (`record_attention`). A query that may attend
    to nothing gets weights 0 and context 0, never NaN.

    `normalised`: whether a query's weights are positive and sum to 1.
    `grouped`: whether k and v may have G heads, fewer than q has, each shared by H / G heads of q;
    other kernels are given them `spread`.
    """

    normalised: ClassVar[bool] = True
    grouped: ClassVar[bool] = False

    @abc.abstractmethod
    def forward(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        """Context: for each query the weighted sum of the values."""

    @abc.abstractmethod
    def weights(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B H S K"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T S"]:
        """The weights themselves."""


def spread(x: Float[Tensor, "B G S K"], num_heads: int) -> Float[Tensor, "B H S K"]:
    """Keys or values as each of H query heads sees them: head h has head h // (H / G) of x."""
    share = num_heads // x.shape[1]
    return x if share == 1 else x.repeat_interleave(share, dim=1)


def masked_softmax(
    scores: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"]
) -> Float[Tensor, "B H T S"]:
    """softmax over the keys a query may attend to; a query that may attend to none gets zeros.

    Such a row would be 0/0. Its scores are set to 0 first, so that neither it nor its gradient is
    ever NaN, and its weights to 0 afterwards.
    """
    dead = ~allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(dead, 0.0)
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


class SoftmaxKernel(Kernel):
    """softmax(scores(Q, K) + bias) V: what all kernels with a softmax share, as the reference.

    A kernel is then one line of mathematics: its `scores`. Faster ones replace `forward` and keep
    this one as their slow twin.
    """

    @abc.abstractmethod
    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        """How well each key answers each query, before the softmax."""

    def forward(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        scores = self.scores(q, k)
        scores = scores if bias is None else scores + bias
        return masked_softmax(scores, mask.dense(q.shape[2], k.shape[2], q.device)).to(v.dtype) @ v

    def weights(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B H S K"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T S"]:
        exact = torch.promote_types(q.dtype, torch.float32)
        scores = self.scores(q.to(exact), k.to(exact))
        scores = scores if bias is None else scores + bias
        return masked_softmax(scores, mask.dense(q.shape[2], k.shape[2], q.device))


class ScaledDot(SoftmaxKernel):
    """softmax(Q K^T / sqrt(K)) V, written as the equation: the reference.

    Why the scale: the dot product of two K-vectors of unit variance has variance K; unscaled, the
    softmax saturates and its gradient vanishes. Vaswani et al. 2017, section 3.2.1.
    """

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
