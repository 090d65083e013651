"""The basic score: a dot product, unscaled."""

from __future__ import annotations

import math

from headway.attention.fused import fused_dot
from headway.attention.kernel import SoftmaxKernel
from headway.attention.masks import Mask
from headway.shapes import Float, Tensor


class Dot(SoftmaxKernel):
    """softmax(Q K^T) V, which needs queries and keys of one width.

    Luong et al. 2015, section 3.1, "dot". What the missing scale does: `headway lecture scaling`.
    """

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        return q @ k.transpose(-1, -2)

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        return fused_dot(q * math.sqrt(q.shape[-1]), k, v, mask, bias)
