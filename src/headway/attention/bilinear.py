"""The multiplicative score: a learned matrix between query and key."""

from __future__ import annotations

import math

import torch
from torch import nn

from headway.attention.fused import fused_dot
from headway.attention.kernel import SoftmaxKernel
from headway.attention.masks import Mask
from headway.shapes import Float, Tensor


class Bilinear(SoftmaxKernel):
    """softmax(Q W K^T) V, one matrix W (Kq x K) a head; query and key may differ in width.

    Luong et al. 2015, section 3.1, "general". W starts as the identity / sqrt(K), so that training
    begins at the scaled dot product and moves where the data asks.
    """

    def __init__(self, num_heads: int, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        self.init_weights()

    def init_weights(self) -> None:
        _, query_dim, key_dim = self.matrix.shape
        with torch.no_grad():
            self.matrix.copy_(torch.eye(query_dim, key_dim) / math.sqrt(key_dim))

    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        return self._asked(q) @ k.transpose(-1, -2)

    def forward(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        # Q W is a query for a dot product, which the fused kernel will divide by sqrt(K)
        query = self._asked(q) * math.sqrt(k.shape[-1])
        return fused_dot(query.to(k.dtype), k, v, mask, bias)

    def _asked(self, q: Float[Tensor, "B H T Kq"]) -> Float[Tensor, "B H T K"]:
        """Q W, one product a head for all rows."""
        return torch.einsum("bhtk,hkj->bhtj", q, self.matrix.to(q.dtype))
