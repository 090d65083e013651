"""Additive score: score(q, k) = v^T tanh(W1 k + W2 q), a network with one hidden layer.

Query and key are projected to a common width A, added, squashed by tanh and reduced to one number
by the vector v. Unlike a dot product, the score is a learned nonlinear function of both.

>>> import torch
>>> from headway.attention import Additive
>>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])  # B H T K = 1 1 3 2
>>> additive = Additive(num_heads=1, query_dim=2, key_dim=2, hidden_dim=1)
>>> for parameter in additive.parameters():
...     _ = parameter.data.fill_(1.0)
>>> additive.scores(words, words)[0, 0].detach().round(decimals=2)  # tanh of the sum of all entries
tensor([[0.9600, 0.9600, 1.0000],
        [0.9600, 0.9600, 1.0000],
        [1.0000, 1.0000, 1.0000]])
"""

import math

import torch
from torch import nn

from headway.attention.kernel import SoftmaxKernel
from headway.base.shapes import Float, Tensor


class Additive(SoftmaxKernel):
    """softmax(scores) V with scores = v^T tanh(W1 k + W2 q); one W1, W2 and v for each head.

    Bahdanau et al. 2015, section A.1.2. `hidden_dim` is A, the width of the hidden layer, which
    holds B H T S A numbers.
    """

    def __init__(self, num_heads: int, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.of_key = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))  # W1
        self.of_query = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))  # W2
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))  # v
        self.init_weights()

    def init_weights(self) -> None:
        for matrix in (self.of_key, self.of_query):
            bound = math.sqrt(6 / sum(matrix.shape[1:]))  # Xavier, for each head
            nn.init.uniform_(matrix, -bound, bound)
        # scores of about unit variance, as those of the scaled dot product
        nn.init.normal_(self.vector, std=self.vector.shape[1] ** -0.5)

    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        queries = torch.einsum("bhtk,hka->bhta", q, self.of_query.to(q.dtype))  # W2 q
        keys = torch.einsum("bhsk,hka->bhsa", k, self.of_key.to(k.dtype))  # W1 k
        hidden = torch.tanh(queries[:, :, :, None] + keys[:, :, None])  # B H T S A
        return torch.einsum("bhtsa,ha->bhts", hidden, self.vector.to(hidden.dtype))
