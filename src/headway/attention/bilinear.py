"""Bilinear (multiplicative) score: score(q, k) = q^T W k, with a learned matrix W.

W learns which features of a query should agree with which features of a key. Query and key may
differ in width.

>>> import torch
>>> from headway.attention import Bilinear
>>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])  # B H T K = 1 1 3 2
>>> bilinear = Bilinear(num_heads=1, query_dim=2, key_dim=2)
>>> _ = bilinear.matrix.data.copy_(torch.tensor([[[0.0, 3.0], [0.0, 0.0]]]))
>>> bilinear.scores(words, words)[0, 0].detach()  # 3 x (first feature of q) x (second of k)
tensor([[0., 3., 3.],
        [0., 0., 0.],
        [0., 3., 3.]])
"""

import math

import torch
from torch import nn

from headway.attention.kernel import SoftmaxKernel
from headway.base.shapes import Float, Tensor


class Bilinear(SoftmaxKernel):
    """softmax(Q W K^T) V, with one matrix W (Kq x K) for each head.

    Luong et al. 2015, section 3.1, "general". W is initialised to the identity / sqrt(K): training
    starts at the scaled dot product.
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
        return self.project(q) @ k.transpose(-1, -2)

    def project(self, q: Float[Tensor, "B H T Kq"]) -> Float[Tensor, "B H T K"]:
        """Return Q W, one product for each head."""
        return torch.einsum("bhtk,hkj->bhtj", q, self.matrix.to(q.dtype))
