"""Attention whose score is the cosine of query and key.

    score(q, k) = s q · k / (|q| |k|),  with one learned scale s per head.

The score depends on the direction of the vectors, not on their length. Henry et al. 2020
("Query-Key Normalization for Transformers") initialise s near the logarithm of the sequence length;
here the initial value is 10.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import SoftmaxKernel
from headway.base.shapes import Float, Tensor


class Cosine(SoftmaxKernel):
    """Computes softmax(s cos(Q, K)) V."""

    def __init__(self, num_heads: int, scale: float = 10.0) -> None:
        super().__init__()
        self.start = scale
        self.scale = nn.Parameter(torch.empty(num_heads))
        self.init_weights()

    def init_weights(self) -> None:
        """Set the initial value of the scale; models are built on the meta device first."""
        nn.init.constant_(self.scale, self.start)

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
        return self.scale[:, None, None] * cosines


def cosine(num_heads: int, head_dim: int) -> Cosine:
    """Make the kernel of one attention layer, with the signature of all `headway.kernels`."""
    return Cosine(num_heads)
