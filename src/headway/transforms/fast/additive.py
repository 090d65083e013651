"""Fast twin of the additive score: its hidden layer is computed in chunks, never stored whole."""

from collections.abc import Iterator
from typing import Any

import torch

from headway.attention.additive import Additive
from headway.base.shapes import Float, Tensor
from headway.transforms.fast.batched import fast_products
from headway.transforms.tracing import tracing

# Numbers of the hidden layer in memory at once: 1 MB of float32 fits a core's own cache.
CHUNK = 2**18


class FastAdditive(Additive):
    """Scores of `Additive` in chunks, computed again for the gradient instead of being stored.

    The hidden layer has B H T S A numbers, far more than the B H T S scores. While `tracing`, the
    plain equation is used: the compiler makes its own loops.
    """

    def scores(
        self, q: Float[Tensor, "B H T Kq"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        if tracing(q, k, self.vector):
            return super().scores(q, k)
        exact = torch.promote_types(q.dtype, torch.float32)
        parameters = (self.of_query.to(q.dtype), self.of_key.to(k.dtype), self.vector.to(exact))
        with torch.autocast(q.device.type, enabled=False):
            scores: Tensor = _ChunkedScores.apply(q, k, *parameters)  # type: ignore[no-untyped-call]
        return scores.transpose(0, 1)  # H B T S -> B H T S


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[tuple[int, slice, slice]]:
    """Yield chunks (head, sequences, queries) whose hidden layer has at most CHUNK numbers.

    The smallest chunk is one query of one sequence.
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
    """Return 2 x W, one product for each head: B H T K, H K A -> H B T A."""
    with fast_products(x.numel() * matrix.shape[2], x, matrix):
        return torch.einsum("bhtk,hka->hbta", x, matrix).to(exact).mul_(2)


class _ChunkedScores(torch.autograd.Function):
    """e[h, b, t, s] = v[h] . tanh(q[b, h, t] W2[h] + k[b, h, s] W1[h]).

    tanh(x) = 2 u - 1 with u = sigmoid(2 x), which a CPU computes ten times faster. So
    e = 2 v.u - sum(v), and with g the gradient of e:  dv = 2 sum g u - sum g,
    d(q W2) = 4 v * sum_s g u (1 - u),  d(k W1) = 4 v * sum_t g u (1 - u). The products with W1 and
    W2 are computed again too: at the length of a sentence they take as much memory as the scores.
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
            part_grad = grad[head, rows, part]  # b t S
            grad_vector[head] += 2 * (part_grad.flatten() @ u.flatten(0, 2))
            steep = torch.addcmul(u, u, u, value=-1).mul_(part_grad[..., None])
            grad_queries[head, rows, part] = steep.sum(2)
            grad_keys[head, rows] += steep.sum(1)
            del u, steep
        del queries, keys
        vectors = 4 * vector[:, None, None]
        grad_q, grad_of_query = _through(q, of_query, grad_queries.mul_(vectors))
        grad_k, grad_of_key = _through(k, of_key, grad_keys.mul_(vectors))
        return grad_q, grad_k, grad_of_query, grad_of_key, grad_vector


def _through(x: Tensor, matrix: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and W from that of x W."""
    grad = grad.to(x.dtype)
    with fast_products(x.numel() * matrix.shape[2], x, matrix):
        return (
            torch.einsum("hbta,hka->bhtk", grad, matrix),
            torch.einsum("bhtk,hbta->hka", x, grad),
        )
