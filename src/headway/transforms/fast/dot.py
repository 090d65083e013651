"""Fast twins of the dot-product kernels: the same numbers in less time and memory."""

import math
from typing import Literal

import torch
import torch.nn.functional as F

from headway.attention.bilinear import Bilinear
from headway.attention.capped import CappedDot
from headway.attention.dot import Dot
from headway.attention.kernel import Bias, Contexts, Keys, Queries, ScaledDot, Values, spread
from headway.attention.masks import Mask
from headway.attention.relative import added
from headway.base.devices import multiplies_bfloat16
from headway.base.shapes import Tensor
from headway.transforms.fast.batched import prefers_onednn
from headway.transforms.fast.blocks import block_attention
from headway.transforms.fast.linear import mkl_is_fast
from headway.transforms.fast.masks import additive, hides_nothing, is_plain_causal
from headway.transforms.tracing import tracing

# Pairs of query and key, as the square of a length. Up to SHORT the weights are kept for the
# gradient. Blocks of heads beat torch's tiled kernel on a CPU whose batched products are fast up to
# LONG, where a head's scores are 16 MB, and with a causal mask, of which torch leaves out the tiles
# that it hides, up to LONG_CAUSAL (docs/log/speed.md has the tables).
SHORT, LONG_CAUSAL, LONG = 128, 768, 2048

# For one query, torch's kernel is faster on a CPU up to this number of heads of all texts together.
FEW_HEADS = 128

Path = Literal["short", "blocks", "sdpa"]


def path(q: Tensor, k: Tensor, is_masked: bool, is_causal: bool = False) -> Path:
    """Return which of its ways `fused_dot` takes.

    `short` and `blocks` are batched products with a hand-written backward, for a CPU: `blocks`
    computes the weights again for the gradient. `sdpa` is torch's `scaled_dot_product_attention`,
    whose memory does not grow with T x S. It is also the way while `tracing`, of the last token of
    few texts, when it is one operation for ten, and of several tokens in float32 without gradients
    where MKL is fast: it copies neither queries, keys nor values.
    """
    if tracing(q, k) or q.device.type != "cpu":
        return "sdpa"
    reads = q.shape[2] > 1 and not torch.is_grad_enabled()
    if reads and q.dtype == torch.float32 and mkl_is_fast():
        return "sdpa"
    pairs = q.shape[2] * k.shape[2]
    if pairs > SHORT * SHORT:
        longest = LONG_CAUSAL if is_causal else LONG
        return "blocks" if pairs <= longest * longest and _multiplies_fast(q, k) else "sdpa"
    is_single = q.shape[2] == 1 and not is_masked and not torch.is_grad_enabled()
    few = is_single and q.shape[0] * q.shape[1] <= FEW_HEADS and q.shape[1] == k.shape[1]
    return "sdpa" if few else "short"


def _multiplies_fast(q: Tensor, k: Tensor) -> bool:
    """Whether batched products of these sizes reach the processor's speed."""
    if q.dtype == torch.bfloat16:
        return multiplies_bfloat16("cpu")
    return prefers_onednn(q.numel() * k.shape[2], q, k)


def fused_dot(q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
    """Return softmax(Q K^T / sqrt(K) + bias) V.

    Keys and values that several query heads share are copied for torch's kernel on a GPU and while
    `tracing` only.
    """
    is_masked = bias is not None or not hides_nothing(mask, q.shape[2])
    is_causal = bias is None and is_plain_causal(mask, q.shape[2], k.shape[2])
    way = path(q, k, is_masked, is_causal)
    if way != "sdpa":
        bias = added(additive(mask, q.shape[2], k.shape[2], like=q), bias)
        return block_attention(q, k, v, bias, keeps_weights=way == "short")
    # asked first: while tracing, sizes are symbols, which cannot be compared
    shares = not tracing(q, k) and q.device.type == "cpu" and k.shape[1] != q.shape[1]
    if not shares:
        k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
    if is_causal:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shares)
    bias = added(additive(mask, q.shape[2], k.shape[2], like=q), bias)
    bias = None if bias is None else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=shares)


class FusedDot(ScaledDot):
    """softmax(Q K^T / sqrt(K)) V by `fused_dot`."""

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        return fused_dot(q, k, v, mask, bias)


class FastDot(Dot):
    """softmax(Q K^T) V by `fused_dot`, whose division by sqrt(K) is undone in the queries."""

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        return fused_dot(q * math.sqrt(q.shape[-1]), k, v, mask, bias)


class FastCappedDot(CappedDot):
    """`CappedDot` by `fused_dot`, if there is no limit: a scale is one of the queries."""

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        if self.cap is not None:
            return super().forward(q, k, v, mask, bias)
        scale = 1.0 if self.scale is None else self.scale * math.sqrt(q.shape[-1])
        return fused_dot(q * scale, k, v, self.narrowed(mask), bias)


class FastBilinear(Bilinear):
    """softmax(Q W K^T) V by `fused_dot`: Q W is the query of a dot product."""

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        query = self.project(q) * math.sqrt(k.shape[-1])
        return fused_dot(query.to(k.dtype), k, v, mask, bias)
