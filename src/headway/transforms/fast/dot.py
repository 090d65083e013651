"""Fast twins of the dot-product kernels: the same numbers in less time and memory."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F

from headway.attention.bilinear import Bilinear
from headway.attention.dot import Dot
from headway.attention.kernel import ScaledDot, spread
from headway.attention.masks import Mask
from headway.attention.relative import added
from headway.shapes import Float, Tensor
from headway.transforms.fast.masks import additive, hides_nothing, is_plain_causal
from headway.transforms.tracing import tracing

# Below this length the matrix products beat torch's tiled kernel on a CPU (docs/speed.md has the
# table): its backward was 3 to 9 times slower at the length of a sentence.
SHORT = 128

# For one query, torch's kernel is faster on a CPU up to this number of heads of all texts together.
FEW_HEADS = 128

# Two matrices of fewer than 400 multiplications (here 12 keys of width 32) are multiplied by plain
# loops in torch, which take three times as long as products and sums of whole tensors.
FEW_KEYS = 12

Path = Literal["short", "sdpa"]


def path(q: Tensor, k: Tensor, is_masked: bool) -> Path:
    """Return which of its two ways `fused_dot` takes.

    `short` is three batched products with a hand-written backward, for CPU sentences; `sdpa` is
    torch's `scaled_dot_product_attention`, whose memory does not grow with T x S. It is also the
    way while `tracing`, and of the last token of few texts, when it is one operation for ten.
    """
    if tracing(q, k):
        return "sdpa"
    if q.device.type != "cpu" or q.shape[2] * k.shape[2] > SHORT * SHORT:
        return "sdpa"
    is_single = q.shape[2] == 1 and not is_masked and not torch.is_grad_enabled()
    few = is_single and q.shape[0] * q.shape[1] <= FEW_HEADS and q.shape[1] == k.shape[1]
    return "sdpa" if few else "short"


def fused_dot(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    mask: Mask,
    bias: Float[Tensor, "#B #H T S"] | None = None,
) -> Float[Tensor, "B H T Kv"]:
    """Return softmax(Q K^T / sqrt(K) + bias) V.

    On the way `short`, keys and values that several query heads share are not copied.
    """
    is_masked = bias is not None or not hides_nothing(mask, q.shape[2])
    if path(q, k, is_masked) == "short":
        bias = added(additive(mask, q.shape[2], k.shape[2], like=q), bias)
        if not torch.is_grad_enabled():
            return _short_attention(q, k, v, bias)[0]
        context: Tensor = _ShortAttention.apply(q, k, v, bias)  # type: ignore[no-untyped-call]
        return context
    k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
    if bias is None and is_plain_causal(mask, q.shape[2], k.shape[2]):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    bias = added(additive(mask, q.shape[2], k.shape[2], like=q), bias)
    bias = None if bias is None else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


class FusedDot(ScaledDot):
    """softmax(Q K^T / sqrt(K)) V by `fused_dot`."""

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        v: Float[Tensor, "B G S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        return fused_dot(q, k, v, mask, bias)


class FastDot(Dot):
    """softmax(Q K^T) V by `fused_dot`, whose division by sqrt(K) is undone in the queries."""

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        v: Float[Tensor, "B G S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        return fused_dot(q * math.sqrt(q.shape[-1]), k, v, mask, bias)


class FastBilinear(Bilinear):
    """softmax(Q W K^T) V by `fused_dot`: Q W is the query of a dot product."""

    def forward(
        self,
        q: Float[Tensor, "B H T Kq"],
        k: Float[Tensor, "B G S K"],
        v: Float[Tensor, "B G S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        query = self.project(q) * math.sqrt(k.shape[-1])
        return fused_dot(query.to(k.dtype), k, v, mask, bias)


def _softmax(scores: Float[Tensor, "N T S"]) -> Float[Tensor, "N T S"]:
    """Apply softmax over the last axis in place; a row of -inf becomes zeros.

    torch's own is several times slower on a CPU when S is short and not a multiple of the vector
    width (91 ns a row at S = 14), so it is spelled out.
    """
    highest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
    exps = scores.sub_(highest).exp_()
    return exps.div_(exps.sum(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).tiny))


def _short_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    added: Float[Tensor, "#B #H #T S"] | None,
) -> tuple[Float[Tensor, "B H T Kv"], tuple[Tensor, ...]]:
    """Return O = P V and what its gradient needs: Q, K, V and P with one axis for all heads."""
    shape, shared = q.shape[:3], k.shape[:2]
    # B H T K -> BG (H/G T) K: one batched product for all heads of all rows
    k, v = (x.reshape(-1, *x.shape[2:]) for x in (k, v))
    q = q.reshape(len(k), shape[1] // shared[1] * shape[2], q.shape[3])
    exact = torch.promote_types(q.dtype, torch.float32)
    scores = torch.bmm(q, k.transpose(1, 2)).to(exact).mul_(1 / math.sqrt(q.shape[-1]))
    if added is not None:
        scores.view(*shape, k.shape[1]).add_(added)
    weights = _softmax(scores).to(v.dtype)
    return _averages(weights, v).view(*shape, v.shape[2]), (q, k, v, weights)


def _averages(weights: Float[Tensor, "N T S"], v: Float[Tensor, "N S Kv"]) -> Tensor:
    """Return the product of weights and values.

    For one query and few keys: 1,024 heads of 10 keys in 76 microseconds instead of 224.
    """
    is_small = weights.shape[1] == 1 and weights.shape[2] <= FEW_KEYS
    if is_small and weights.dtype == torch.float32 and not torch.is_grad_enabled():
        return (weights.transpose(1, 2) * v).sum(1, keepdim=True)
    return torch.bmm(weights, v)


class _ShortAttention(torch.autograd.Function):
    """O = P V, P = softmax(Q K^T / sqrt(K) + added).

    dV = P^T dO;  dP = dO V^T;  dS = P * (dP - rowsum(dP * P));
    dQ = dS K / sqrt(K);  dK = dS^T Q / sqrt(K).

    The H / G query heads that share a key head are treated as one head of H / G times T queries:
    the products are the same, and the gradients are summed in them.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor | None) -> Tensor:
        ctx.shape, ctx.shared = q.shape[:3], k.shape[:2]
        ctx.added_shape = None if added is None else added.shape
        context, saved = _short_attention(q, k, v, added)
        ctx.save_for_backward(*saved)
        return context

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights = ctx.saved_tensors
        grad = grad.reshape(*q.shape[:2], v.shape[2])
        grad_v = torch.bmm(weights.transpose(1, 2), grad)
        exact = torch.promote_types(q.dtype, torch.float32)
        grad_weights = torch.bmm(grad, v.transpose(1, 2)).to(exact)
        weights = weights.to(exact)
        inner = (grad_weights * weights).sum(-1, keepdim=True)
        grad_scores = grad_weights.sub_(inner).mul_(weights)
        grad_added = None
        if ctx.needs_input_grad[3]:
            grad_added = grad_scores.view(*ctx.shape, k.shape[1])
            grad_added = grad_added.sum_to_size(ctx.added_shape)
        grad_scores = (grad_scores * (1 / math.sqrt(q.shape[-1]))).to(q.dtype)
        grad_q = torch.bmm(grad_scores, k)
        grad_k = torch.bmm(grad_scores.transpose(1, 2), q)
        keys_values = (x.view(*ctx.shared, *x.shape[1:]) for x in (grad_k, grad_v))
        return (grad_q.view(*ctx.shape, q.shape[2]), *keys_values, grad_added)
