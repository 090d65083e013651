"""The additive score: a small network over query and key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from headway.attention.kernel import SoftmaxKernel
from headway.shapes import Float, Tensor

# Numbers of the tanh layer alive at once: 1 MB of float32, which stays in a core's own cache.
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
        queries = (q @ self.of_query.to(q.dtype)).to(exact)  # B H T Kq -> B H T A
        keys = (k @ self.of_key.to(k.dtype)).to(exact)  # B H S K -> B H S A
        found: Tensor = _ChunkedScores.apply(  # type: ignore[no-untyped-call]
            queries.flatten(0, 1), keys.flatten(0, 1), self.vector.to(exact)
        )
        return found.view(*q.shape[:3], k.shape[2])


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows x queries, cut so that their tanh layer has at most CHUNK numbers (or one query's)."""
    num_rows, num_queries = queries.shape[:2]
    cost = keys.shape[1] * keys.shape[2]
    width = max(1, min(num_queries, CHUNK // max(cost, 1)))
    height = max(1, CHUNK // max(cost * width, 1)) if width == num_queries else 1
    for row in range(0, num_rows, height):
        for query in range(0, num_queries, width):
            yield slice(row, row + height), slice(query, query + width)


class _ChunkedScores(torch.autograd.Function):
    """e[n, t, s] = sum_a v[h, a] tanh(q[n, t, a] + k[n, s, a]), n = b H + h.

    With u = tanh(...) and g the gradient of e:  dv = sum g u;  dq = v * (sum_s g - sum_s g u^2),
    since tanh' = 1 - u^2;  dk = v * (sum_t g - sum_t g u^2).
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        # H A -> N A
        vectors = vector.expand(queries.shape[0] // len(vector), -1, -1).flatten(0, 1)
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for rows, part in _blocks(queries, keys):
            u = torch.tanh_(queries[rows, part, None] + keys[rows, None])  # n t S A
            scores[rows, part] = (u.flatten(1, 2) @ vectors[rows, :, None]).view(u.shape[:3])
        ctx.save_for_backward(queries, keys, vectors)
        ctx.num_heads = len(vector)
        return scores

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, vectors = ctx.saved_tensors
        grad_queries = grad.sum(2)[..., None].expand_as(queries).contiguous()
        grad_keys = grad.sum(1)[..., None].expand_as(keys).contiguous()
        grad_vectors = torch.zeros_like(vectors)
        for rows, part in _blocks(queries, keys):
            u = torch.tanh_(queries[rows, part, None] + keys[rows, None])
            here = grad[rows, part]  # n t S
            grad_vectors[rows] += (here.flatten(1, 2)[:, None] @ u.flatten(1, 2))[:, 0]
            steep = u.square_().mul_(here[..., None])
            grad_queries[rows, part] -= steep.sum(2)
            grad_keys[rows] -= steep.sum(1)
        grad_vector = grad_vectors.view(-1, ctx.num_heads, vectors.shape[1]).sum(0)
        vectors = vectors[:, None]
        return grad_queries * vectors, grad_keys * vectors, grad_vector
