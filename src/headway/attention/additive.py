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
    gradient instead of being kept. While torch.compile traces, the equation is used as it is: the
    compiler makes its own loops.
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
        own = (self.of_query.to(q.dtype), self.of_key.to(k.dtype), self.vector.to(exact))
        with torch.autocast(q.device.type, enabled=False):
            if torch.compiler.is_compiling():
                return _scores_at_once(q, k, *own)
            found: Tensor = _ChunkedScores.apply(q, k, *own)  # type: ignore[no-untyped-call]
        return found.transpose(0, 1)  # H B T S -> B H T S


def _scores_at_once(
    q: Tensor, k: Tensor, of_query: Tensor, of_key: Tensor, vector: Tensor
) -> Float[Tensor, "B H T S"]:
    """v . tanh(q W2 + k W1), with the whole B H T S A layer inside."""
    queries = torch.einsum("bhtk,hka->bhta", q, of_query).to(vector.dtype)
    keys = torch.einsum("bhsk,hka->bhsa", k, of_key).to(vector.dtype)
    inner = torch.tanh(queries[:, :, :, None] + keys[:, :, None])  # B H T S A
    return torch.einsum("bhtsa,ha->bhts", inner, vector)


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


def _projected(x: Tensor, matrix: Tensor, exact: torch.dtype) -> Tensor:
    """2 x W, one product a head for all rows: B H T K, H K A -> H B T A."""
    return torch.einsum("bhtk,hka->hbta", x, matrix).to(exact).mul_(2)


class _ChunkedScores(torch.autograd.Function):
    """e[h, b, t, s] = v[h] . tanh(q[b, h, t] W2[h] + k[b, h, s] W1[h]).

    tanh(x) = 2 u - 1 with u = sigmoid(2 x), which a CPU computes ten times faster. So
    e = 2 v.u - sum(v), and with g the gradient of e:  dv = 2 sum g u - sum g,
    d(q W2) = 4 v * sum_s g u (1 - u),  d(k W1) = 4 v * sum_t g u (1 - u). The products with W1 and
    W2 too are made again for the gradient: at a sentence's length they weigh as much as the scores.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, of_query: Tensor, of_key: Tensor, vector: Tensor
    ) -> Tensor:
        queries, keys = _projected(q, of_query, vector.dtype), _projected(k, of_key, vector.dtype)
        scores = queries.new_empty(*queries.shape[:3], keys.shape[2])
        for head, rows, part in _blocks(queries, keys):
            u = torch.sigmoid_(queries[head, rows, part, None] + keys[head, rows, None])  # b t S A
            scores[head, rows, part] = u @ vector[head]
            del u  # or the next one would be made beside it
        ctx.save_for_backward(q, k, of_query, of_key, vector)
        return scores.mul_(2).sub_(vector.sum(1)[:, None, None, None])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        q, k, of_query, of_key, vector = ctx.saved_tensors
        queries, keys = _projected(q, of_query, vector.dtype), _projected(k, of_key, vector.dtype)
        grad_queries, grad_keys = torch.empty_like(queries), torch.zeros_like(keys)
        grad_vector = -grad.sum((1, 2, 3))[:, None].repeat(1, vector.shape[1])
        for head, rows, part in _blocks(queries, keys):
            u = torch.sigmoid_(queries[head, rows, part, None] + keys[head, rows, None])
            here = grad[head, rows, part]  # b t S
            grad_vector[head] += 2 * (here.flatten() @ u.flatten(0, 2))
            steep = torch.addcmul(u, u, u, value=-1).mul_(here[..., None])
            grad_queries[head, rows, part] = steep.sum(2)
            grad_keys[head, rows] += steep.sum(1)
            del u, steep
        del queries, keys
        vectors = 4 * vector[:, None, None]
        grad_q, grad_of_query = _through(q, of_query, grad_queries.mul_(vectors))
        grad_k, grad_of_key = _through(k, of_key, grad_keys.mul_(vectors))
        return grad_q, grad_k, grad_of_query, grad_of_key, grad_vector


def _through(x: Tensor, matrix: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and W from that of x W."""
    grad = grad.to(x.dtype)
    return (
        torch.einsum("hbta,hka->bhtk", grad, matrix),
        torch.einsum("bhtk,hbta->hka", x, grad),
    )
