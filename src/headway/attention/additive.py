"""The additive score: a small network over query and key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from headway.attention.kernel import SoftmaxKernel
from headway.shapes import Float, Tensor

# Numbers of the inner layer alive at once: 1 MB of float32, which stays in a core's own cache.
CHUNK = 2**18


class Additive(SoftmaxKernel):
    """softmax(e) V with e(q, h) = v^T tanh(W1 h + W2 q), one W1, W2, v a head, inner width A.

    Bahdanau et al. 2015, section A.1.2. The layer of tanh has B H T S A numbers, far more than the
    B H T S scores. It is never there at once: it is made in chunks, and made again for the
    gradient instead of being kept.
    """

    def __init__(self, num_heads: int, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.of_key = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))  # W1
        self.of_query = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))  # W2
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))  # v
        self.init_weights()

    def init_weights(self) -> None:
        for matrix in (self.of_key, self.of_query):
            bound = math.sqrt(6 / sum(matrix.shape[1:]))  # Xavier, head by head
            nn.init.uniform_(matrix, -bound, bound)
        # scores of about unit variance, as the scaled dot product has
        nn.init.normal_(self.vector, std=self.vector.shape[1] ** -0.5)

    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        exact = torch.promote_types(q.dtype, torch.float32)
        # one product a head for all rows: B H T Kq, H Kq A -> H B T A
        queries = torch.einsum("bhtk,hka->hbta", q, self.of_query.to(q.dtype)).to(exact)
        keys = torch.einsum("bhsk,hka->hbsa", k, self.of_key.to(k.dtype)).to(exact)
        with torch.autocast(q.device.type, enabled=False):
            found: Tensor = _ChunkedScores.apply(  # type: ignore[no-untyped-call]
                queries, keys, self.vector.to(exact)
            )
        return found.transpose(0, 1)  # H B T S -> B H T S


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[tuple[int, slice, slice]]:
    """Head by head, rows x queries, cut so that the inner layer has at most CHUNK numbers.

    One query of one row is the least there is.
    """
    num_heads, num_rows, num_queries = queries.shape[:3]
    cost = keys.shape[2] * keys.shape[3]
    width = max(1, min(num_queries, CHUNK // max(cost, 1)))
    height = max(1, CHUNK // max(cost * width, 1)) if width == num_queries else 1
    for head in range(num_heads):
        for row in range(0, num_rows, height):
            for query in range(0, num_queries, width):
                yield head, slice(row, row + height), slice(query, query + width)


class _ChunkedScores(torch.autograd.Function):
    """e[h, b, t, s] = v[h] . tanh(q[h, b, t] + k[h, b, s]).

    tanh(x) = 2 u - 1 with u = sigmoid(2 x), which a CPU computes ten times faster. So
    e = 2 v.u - sum(v), and with g the gradient of e:  dv = 2 sum g u - sum g,
    dq = 4 v * sum_s g u (1 - u),  dk = 4 v * sum_t g u (1 - u).
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        queries, keys = 2 * queries, 2 * keys
        scores = queries.new_empty(*queries.shape[:3], keys.shape[2])
        for head, rows, part in _blocks(queries, keys):
            u = torch.sigmoid_(queries[head, rows, part, None] + keys[head, rows, None])  # b t S A
            scores[head, rows, part] = u @ vector[head]
        ctx.save_for_backward(queries, keys, vector)
        return scores.mul_(2).sub_(vector.sum(1)[:, None, None, None])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, vector = ctx.saved_tensors
        grad_queries, grad_keys = torch.empty_like(queries), torch.zeros_like(keys)
        grad_vector = -grad.sum((1, 2, 3))[:, None].repeat(1, vector.shape[1])
        for head, rows, part in _blocks(queries, keys):
            u = torch.sigmoid_(queries[head, rows, part, None] + keys[head, rows, None])
            here = grad[head, rows, part]  # b t S
            grad_vector[head] += 2 * (here.flatten() @ u.flatten(0, 2))
            steep = torch.addcmul(u, u, u, value=-1).mul_(here[..., None])
            grad_queries[head, rows, part] = steep.sum(2)
            grad_keys[head, rows] += steep.sum(1)
        vectors = 4 * vector[:, None, None]
        return grad_queries * vectors, grad_keys * vectors, grad_vector
