"""Multi-head attention around any kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from headway.attention.cache import KeyValueCache
from headway.attention.documents import Documents
from headway.attention.fused import FusedDot, added
from headway.attention.kernel import Kernel
from headway.attention.masks import Mask
from headway.attention.relative import AttentionPositions, places
from headway.linear import Linear, linears
from headway.shapes import Float, Tensor


class MultiHeadAttention(nn.Module):
    """concat(head_1 ... head_H) W_O, head_h = kernel(x W_Q^h, source W_K^h, source W_V^h).

    Self-attention is `attention(x, x, mask)`; cross-attention gives another `source`, which may
    have another width (`source_dim`): text, image patches, sound. `value_dim` is the width of one
    head's values, K unless given: heads of width 1 concatenate to a vector of width H, which W_O
    brings back to D. Vaswani et al. 2017, section 3.2.2.

    `positions` (rotary, ALiBi, relative) is for self-attention: it knows where the tokens of one
    sequence stand.

    Weights of the H heads lie in one matrix each: head h of the queries is the columns
    h K ... (h + 1) K of `query`.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        kernel: Kernel | None = None,
        source_dim: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"{num_heads=} must be at least 1")
        if head_dim is None:
            if model_dim % num_heads:
                raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
            head_dim = model_dim // num_heads
        source_dim = model_dim if source_dim is None else source_dim
        value_dim = head_dim if value_dim is None else value_dim
        self.num_heads = num_heads
        self.query = Linear(model_dim, num_heads * head_dim, bias=bias)
        self.key = Linear(source_dim, num_heads * head_dim, bias=bias)
        self.value = Linear(source_dim, num_heads * value_dim, bias=bias)
        self.output = Linear(num_heads * value_dim, model_dim, bias=bias)
        self.kernel = FusedDot() if kernel is None else kernel
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        source: Float[Tensor, "B S E"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        if mask.documents is not None:
            if source is not x or bias is not None or not mask.causal:
                raise ValueError("packed documents are for causal self-attention without a bias")
            return self._attend_within(x, replace(mask, documents=None), mask.documents)
        if source is not x:
            return self.attend(x, *self.keys_values(source), mask, bias)
        queries, keys, values = linears(x, (self.query, self.key, self.value))
        return self._attend(queries, *self._placed(keys, values), mask, bias)

    def keys_values(
        self, source: Float[Tensor, "B S E"], past: Sequence[int] = (0,)
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S Kv"]]:
        """Keys and values of `source`: made once a sentence, whatever the number of queries.

        past: how many tokens of each row came before, one number if all agree.
        """
        return self._placed(self.key(source), self.value(source), past)

    def attend(
        self,
        x: Float[Tensor, "N T D"],
        k: Float[Tensor, "M G S K"],
        v: Float[Tensor, "M G S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#N #H T S"] | None = None,
        past: Sequence[int] = (0,),
    ) -> Float[Tensor, "N T D"]:
        """Attention of the queries made from x over keys and values made before.

        N may be a multiple of M: then N / M consecutive rows (the beams of one sentence) share one
        row of keys and values, and `mask` may only speak of keys.
        """
        return self._attend(self.query(x), k, v, mask, bias, past)

    def _placed(
        self,
        keys: Float[Tensor, "B S GK"],
        values: Float[Tensor, "B S GKv"],
        past: Sequence[int] = (0,),
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S Kv"]]:
        """As heads, and the keys with their positions."""
        k = self._keys(keys)
        if self.positions is not None:
            k = self.positions.rotate(k, places(past, k.shape[2], k.device))
        return k, self._heads(values)

    def _attend(
        self,
        x: Float[Tensor, "N T HK"],
        k: Float[Tensor, "M G S K"],
        v: Float[Tensor, "M G S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#N #H T S"] | None = None,
        past: Sequence[int] = (0,),
    ) -> Float[Tensor, "N T D"]:
        """`attend`, from the queries of all heads on."""
        rows = x
        if x.shape[0] != k.shape[0]:
            rows = x.view(k.shape[0], -1, x.shape[-1])  # N T HK -> M (N/M T) HK
        q = self._queries(rows)
        if self.positions is not None:
            here = places(past, x.shape[1], x.device)
            q = self.positions.rotate(q, here)
            bias = added(bias, self.positions.bias(here, k.shape[2]))
        return self._merged(self.kernel(q, *self._shared(k, v), mask, bias), x)

    def _attend_within(
        self, x: Float[Tensor, "B T D"], mask: Mask, documents: Documents
    ) -> Float[Tensor, "B T D"]:
        """Self-attention inside each document of packed rows, as if it were a row of its own."""
        rows = self._queries(self.query(x)), self._keys(self.key(x)), self._heads(self.value(x))
        contexts = []
        for q, k, v in zip(*(documents.apart(part) for part in rows), strict=True):
            bias = None
            if self.positions is not None:
                here = places((0,), q.shape[2], x.device)
                q, k = self.positions.rotate(q, here), self.positions.rotate(k, here)
                bias = self.positions.bias(here, k.shape[2])
            contexts.append(self.kernel(q, *self._shared(k, v), mask, bias))
        return self._merged(documents.together(contexts), x)

    def _merged(
        self, context: Float[Tensor, "M H T Kv"], x: Float[Tensor, "N U _"]
    ) -> Float[Tensor, "N U D"]:
        merged = context.transpose(1, 2).flatten(2)  # M H T Kv -> M T HKv
        out: Tensor = self.output(merged.view(*x.shape[:2], -1))
        return out

    def attend_cached(
        self, x: Float[Tensor, "N T D"], cache: KeyValueCache
    ) -> Float[Tensor, "N T D"]:
        """Causal self-attention of T new tokens over everything in the cache and themselves."""
        past = tuple(cache.lengths)
        queries, keys, values = linears(x, (self.query, self.key, self.value))
        k, v, mask = cache.append(*self._placed(keys, values, past))
        return self._attend(queries, k, v, mask, past=past)

    def _shared(
        self, k: Float[Tensor, "M G S K"], v: Float[Tensor, "M G S Kv"]
    ) -> tuple[Float[Tensor, "M _ S K"], Float[Tensor, "M _ S Kv"]]:
        """Keys and values as the kernel takes them."""
        return k, v

    def _queries(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        return self._heads(x)

    def _keys(self, x: Float[Tensor, "B S GK"]) -> Float[Tensor, "B G S K"]:
        return self._heads(x)

    def _heads(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # B T HK -> B H T K
