"""Grouped-query attention: H query heads share G heads of keys and values.

Query head h attends with key and value head h // (H / G). The cache of a decoder shrinks by H / G;
G = H is multi-head attention, G = 1 multi-query attention.

>>> import torch
>>> from headway.attention import GroupedQueryAttention
>>> attention = GroupedQueryAttention(model_dim=8, num_heads=4, num_kv_heads=2)
>>> words = torch.randn(1, 3, 8)  # B T D: three words
>>> attention.split_queries(attention.query(words)).shape  # B H T K: four heads of queries
torch.Size([1, 4, 3, 2])
>>> attention.keys_values(words).k.shape  # B G S K: two heads of keys
torch.Size([1, 2, 3, 2])
"""

from collections.abc import Callable

from torch import nn

from headway.attention.kernel import Kernel
from headway.attention.multihead import MultiHeadAttention
from headway.attention.relative import AttentionPositions
from headway.base.shapes import Float, Tensor


class GroupedQueryAttention(MultiHeadAttention):
    """Self-attention with H heads of queries and G of keys and values. Ainslie et al. 2023, 2.2.

    head_norm: makes the norm, over K, of the queries of every head, and another one of the keys,
    before positions are applied (QK-norm): scores then stay small whatever the weights. Henry et
    al. 2020; Dehghani et al. 2023, section 2. No norm unless set.
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
        self.key = nn.Linear(model_dim, num_kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(model_dim, num_kv_heads * self.head_dim, bias=bias)
        self.query_norm = head_norm(self.head_dim)
        self.key_norm = head_norm(self.head_dim)

    def split_queries(self, queries: Float[Tensor, "N T HK"]) -> Float[Tensor, "N H T K"]:
        return self.query_norm(super().split_queries(queries))

    def split_keys(self, keys: Float[Tensor, "M S GK"]) -> Float[Tensor, "M G S K"]:
        return self.key_norm(super().split_keys(keys))
