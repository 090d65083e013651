"""Attention whose query heads share keys and values: a smaller cache."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from headway.attention.kernel import Kernel, spread
from headway.attention.multihead import MultiHeadAttention
from headway.attention.relative import AttentionPositions
from headway.linear import Linear
from headway.shapes import Float, Tensor


class GroupedQueryAttention(MultiHeadAttention):
    """Self-attention with H heads of queries and G of keys and values: H / G share one.

    Query head h reads key head h // (H / G). G = H is multi-head, G = 1 multi-query attention; a
    cache holds G heads. Ainslie et al. 2023, section 2.2.

    head_norm: makes the norm, over K, of every head's queries and another one of the keys, before
    positions turn them (QK-norm): no weights can then make the scores large. Henry et al. 2020;
    Dehghani et al. 2023, section 2. Nothing unless given.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        kernel: Kernel | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        positions: AttentionPositions | None = None,
        head_norm: Callable[[int], nn.Module] = nn.Identity,
    ) -> None:
        super().__init__(
            model_dim, num_heads, kernel=kernel, head_dim=head_dim, bias=bias, positions=positions
        )
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"{num_heads=} must be a multiple of {num_kv_heads=}")
        self.head_dim = self.query.out_features // num_heads
        self.key = Linear(model_dim, num_kv_heads * self.head_dim, bias=bias)
        self.value = Linear(model_dim, num_kv_heads * self.head_dim, bias=bias)
        self.query_norm = head_norm(self.head_dim)
        self.key_norm = head_norm(self.head_dim)

    def _shared(
        self, k: Float[Tensor, "M G S K"], v: Float[Tensor, "M G S Kv"]
    ) -> tuple[Float[Tensor, "M _ S K"], Float[Tensor, "M _ S Kv"]]:
        """One for each head of the queries, unless the kernel spares itself the copies."""
        if self.kernel.grouped:
            return k, v
        return spread(k, self.num_heads), spread(v, self.num_heads)

    def _queries(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        normed: Tensor = self.query_norm(self._heads(x))
        return normed

    def _keys(self, x: Float[Tensor, "B S GK"]) -> Float[Tensor, "B G S K"]:
        normed: Tensor = self.key_norm(self._heads(x))
        return normed

    def _heads(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        heads = x.view(*x.shape[:2], x.shape[2] // self.head_dim, self.head_dim)
        return heads.transpose(1, 2)  # B T H K -> B H T K
