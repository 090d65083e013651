"""Softmax attention on a CPU by batched products, some heads at a time.

    O = P V,   P = softmax(S),   S = Q K^T / sqrt(K) + added
    dV = P^T dO;  dP = dO V^T;  dS = P * (dP - rowsum(dP * P))
    dQ = dS K / sqrt(K);  dK = dS^T Q / sqrt(K);  d added = dS

The scores of as many heads as fit into the cache are computed, normalised and multiplied by
the values before those of the next heads. The gradient needs P, which is kept, or computed again
where it would be large: then memory grows with the length, not with its square.

Query heads that share a key head are treated as one head of all their queries (R of them): the
products are the same, and the gradients are summed in them. N = B G is the number of key heads.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from headway.base.shapes import Float, Tensor
from headway.transforms.fast.batched import batched_product, prefers_onednn

BLOCK = 1 << 20
"""Scores of a block for each thread: 4 MiB in float32, which the last-level cache holds."""

FEW_QUERIES = 4
"""With fewer queries of a key head MKL's products are as fast as oneDNN's."""

WIDE, MANY = 64, 16
"""Rows of WIDE scores have torch's softmax, if a head has MANY: it takes 91 ns for one of 14
scores, four times as long as operations on the whole tensor, but for wide ones less time, and its
gradient a third."""

# Two matrices of fewer than 400 multiplications (here 12 keys of width 32) are multiplied by plain
# loops in torch, which take three times as long as products and sums of whole tensors.
FEW_KEYS = 12


def block_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    added: Float[Tensor, "#B #H #T S"] | None,
    keeps_weights: bool,
) -> Float[Tensor, "B H T Kv"]:
    """Return O; a query that may attend to no key gets zeros.

    keeps_weights: whether P is kept for the gradient, or computed again.
    """
    if torch.is_grad_enabled():
        return _BlockAttention.apply(q, k, v, added, keeps_weights)  # type: ignore[no-untyped-call]
    if q.shape[2] == 1:
        return _of_last_query(q, k, v, added)
    context = _context(*_joined(q, k, v), added, _plan(q, k, v, added))[0]
    return context.view(*q.shape[:3], v.shape[3])


def _of_last_query(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    added: Float[Tensor, "#B #H #1 S"] | None,
) -> Float[Tensor, "B H 1 Kv"]:
    """Return O of a step of decoding, in which each operation takes longer than its numbers."""
    shape, exact = q.shape[:3], torch.promote_types(q.dtype, torch.float32)
    q, k, v = _joined(q, k, v)
    scores = torch.bmm(q, k.transpose(1, 2)).to(exact).mul_(1 / math.sqrt(q.shape[2]))
    if added is not None:
        scores.view(*shape, k.shape[1]).add_(added)
    weights = _softmax(scores, by_torch=False).to(v.dtype)
    if weights.shape[1] == 1 and weights.shape[2] <= FEW_KEYS and weights.dtype == torch.float32:
        # 1,024 heads of 10 keys in 76 microseconds instead of 224
        context = (weights.transpose(1, 2) * v).sum(1)
    else:
        context = torch.bmm(weights, v)
    return context.view(*shape, v.shape[2])


@dataclass(frozen=True)
class _Block:
    """heads: which of the N key heads. rows and queries: which rows of the batch they belong to,
    and which of the H query heads. shape: number of rows, query heads and queries."""

    heads: slice
    rows: slice
    queries: slice
    shape: tuple[int, int, int]

    def of(self, added: Float[Tensor, "#B #H #T S"]) -> Tensor:
        """Return the part of what is added to the scores, or of its gradient."""
        rows = self.rows if added.shape[0] > 1 else slice(None)
        return added[rows, self.queries] if added.shape[1] > 1 else added[rows]


@dataclass(frozen=True)
class _Plan:
    """by_onednn, by_torch: whether oneDNN multiplies, and softmax is torch's. dtype: that of the
    values, which the weights get.
    """

    blocks: list[_Block]
    by_onednn: bool
    by_torch: bool
    dtype: torch.dtype

    def product(
        self,
        a: Float[Tensor, "n X Y"],
        b: Float[Tensor, "n Y Z"],
        scale: float = 1.0,
        out: Tensor | None = None,
    ) -> Float[Tensor, "n X Z"]:
        return batched_product(a, b, scale, by_onednn=self.by_onednn, out=out)


def _plan(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    added: Float[Tensor, "#B #H #T S"] | None,
) -> _Plan:
    """Divide the key heads of all rows: a block has whole rows, or heads of one row."""
    (batch, queries, length), (heads, num_keys) = q.shape[:3], k.shape[1:3]
    shared = queries // heads
    most = max(1, BLOCK // max(1, shared * length * num_keys)) * torch.get_num_threads()
    some_rows = max(1, min(most // heads, batch))
    some_heads = heads if most >= heads else -(-heads // -(-heads // most))  # alike, up to rounding
    blocks = [
        _Block(
            slice(row * heads + head, (end_row - 1) * heads + end_head),
            slice(row, end_row),
            slice(head * shared, end_head * shared),
            (end_row - row, (end_head - head) * shared, length),
        )
        for row, end_row in _ranges(batch, some_rows)
        for head, end_head in _ranges(heads, some_heads)
    ]
    by_onednn = shared * length >= FEW_QUERIES and prefers_onednn(q.numel() * num_keys, q, k, v)
    return _Plan(blocks, by_onednn, _torch_may_normalise(q, k, added), v.dtype)


def _ranges(total: int, step: int) -> list[tuple[int, int]]:
    return [(i, min(i + step, total)) for i in range(0, total, step)]


def _joined(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S Kv"]
) -> tuple[Float[Tensor, "N R K"], Float[Tensor, "N S K"], Float[Tensor, "N S Kv"]]:
    """Give all key heads of all rows one axis."""
    k, v = (x.reshape(-1, *x.shape[2:]) for x in (k, v))
    return q.reshape(len(k), -1, q.shape[3]), k, v


def _context(
    q: Float[Tensor, "N R K"],
    k: Float[Tensor, "N S K"],
    v: Float[Tensor, "N S Kv"],
    added: Float[Tensor, "#B #H #T S"] | None,
    plan: _Plan,
    keeps_weights: bool = False,
) -> tuple[Float[Tensor, "N R Kv"], list[Tensor]]:
    """Return O, and P of each block if it is to be kept."""
    context = v.new_empty(*q.shape[:2], v.shape[2])
    kept = []
    for block in plan.blocks:
        weights = _weights(q, k, added, block, plan)
        plan.product(weights, v[block.heads], out=context[block.heads])
        if keeps_weights:
            kept.append(weights)
    return context, kept


def _weights(
    q: Float[Tensor, "N R K"],
    k: Float[Tensor, "N S K"],
    added: Float[Tensor, "#B #H #T S"] | None,
    block: _Block,
    plan: _Plan,
) -> Float[Tensor, "n R S"]:
    """Return P of a block."""
    exact = torch.promote_types(q.dtype, torch.float32)
    keys, scale = k[block.heads].transpose(1, 2), 1 / math.sqrt(q.shape[-1])
    scores = plan.product(q[block.heads], keys, scale).to(exact)
    if added is not None:
        scores.view(*block.shape, k.shape[1]).add_(block.of(added))
    return _softmax(scores, plan.by_torch).to(plan.dtype)


def _softmax(scores: Float[Tensor, "N R S"], by_torch: bool) -> Float[Tensor, "N R S"]:
    """Apply softmax over the last axis in place; a row of -inf becomes zeros."""
    if by_torch:
        return torch.softmax(scores, -1, out=scores)
    highest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
    exps = scores.sub_(highest).exp_()
    return exps.div_(exps.sum(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).tiny))


def _torch_may_normalise(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    added: Float[Tensor, "#B #H #T S"] | None,
) -> bool:
    """Whether torch's softmax is faster for these rows, and none of them hides all keys."""
    if k.shape[2] < WIDE or q.shape[2] < MANY:
        return False
    return added is None or not bool((added.amax(-1) == -torch.inf).any())


class _BlockAttention(torch.autograd.Function):
    """`block_attention` with its gradients; the module's docstring has the equations."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, keeps_weights: bool
    ) -> Tensor:
        ctx.shape, ctx.shared, ctx.plan = q.shape, k.shape[:2], _plan(q, k, v, added)
        joined = _joined(q, k, v)
        context, kept = _context(*joined, added, ctx.plan, keeps_weights)
        ctx.save_for_backward(*joined, added, *kept)
        return context.view(*ctx.shape[:3], v.shape[3])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, added, *kept = ctx.saved_tensors
        plan, scale = ctx.plan, 1 / math.sqrt(q.shape[-1])
        grad = grad.reshape(*q.shape[:2], v.shape[2])
        grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q, k, v))
        grad_added = torch.zeros_like(added) if ctx.needs_input_grad[3] else None
        for i, block in enumerate(plan.blocks):
            heads = block.heads
            weights = kept[i] if kept else _weights(q, k, added, block, plan)
            plan.product(weights.transpose(1, 2), grad[heads], out=grad_v[heads])
            grad_weights = plan.product(grad[heads], v[heads].transpose(1, 2))
            grad_scores = _through_softmax(grad_weights, weights, plan.by_torch)
            if grad_added is not None:
                part = block.of(grad_added)
                part += grad_scores.view(*block.shape, k.shape[1]).sum_to_size(part.shape)
            grad_scores = grad_scores.to(q.dtype)
            plan.product(grad_scores, k[heads], scale, out=grad_q[heads])
            plan.product(grad_scores.transpose(1, 2), q[heads], scale, out=grad_k[heads])
        keys_values = (x.view(*ctx.shared, *x.shape[1:]) for x in (grad_k, grad_v))
        return (grad_q.view(ctx.shape), *keys_values, grad_added, None)


def _through_softmax(
    grad_weights: Float[Tensor, "N R S"], weights: Float[Tensor, "N R S"], by_torch: bool
) -> Float[Tensor, "N R S"]:
    """Return dS = P * (dP - rowsum(dP * P)), in float32 at least."""
    exact = torch.promote_types(weights.dtype, torch.float32)
    grad_weights, weights = grad_weights.to(exact), weights.to(exact)
    if by_torch:
        return torch._softmax_backward_data(grad_weights, weights, -1, exact)
    inner = (grad_weights * weights).sum(-1, keepdim=True)
    return grad_weights.sub_(inner).mul_(weights)
