"""The kernel contract, and the reference that every fast kernel is measured against."""

from __future__ import annotations

import abc
import math

import torch
from torch import nn

from headway.attention.masks import Mask
from headway.shapes import Float, Tensor


class Kernel(nn.Module, abc.ABC):
    """Turns queries, keys and values into context vectors: scores, weights, weighted sum.

    `forward` may compute in any way it likes; `weights` says what the weights were, in float32 or
    better, and is called only while somebody records (`record_attention`). A query that may attend
    to nothing gets weights 0 and context 0, never NaN.
    """

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


def masked_softmax(
    scores: Float[Tensor, "B H T S"], allowed: Float[Tensor, ...] | Tensor
) -> Float[Tensor, "B H T S"]:
    """softmax over the keys a query may attend to; a query that may attend to none gets zeros.

    Such a row would be 0/0. Its scores are set to 0 first, so that neither it nor its gradient is
    ever NaN, and its weights to 0 afterwards.
    """
    dead = ~allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(dead, 0.0)
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


def scaled_dot_scores(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    bias: Float[Tensor, "#B #H T S"] | None,
) -> Float[Tensor, "B H T S"]:
    """Q K^T / sqrt(K), plus the bias if there is one."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores if bias is None else scores + bias


class ScaledDot(Kernel):
    """softmax(Q K^T / sqrt(K)) V, written as the equation: the reference.

    Why the scale: the dot product of two K-vectors of unit variance has variance K; unscaled, the
    softmax saturates and its gradient vanishes. Vaswani et al. 2017, section 3.2.1.
    """

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        allowed = mask.dense(q.shape[2], k.shape[2], q.device)
        return masked_softmax(scaled_dot_scores(q, k, bias), allowed) @ v

    def weights(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T S"]:
        dtype = torch.promote_types(q.dtype, torch.float32)
        allowed = mask.dense(q.shape[2], k.shape[2], q.device)
        return masked_softmax(scaled_dot_scores(q.to(dtype), k.to(dtype), bias), allowed)
