"""Fast twins of multi-head attention: joint projections, packed documents apart, fewer copies."""

from __future__ import annotations

from dataclasses import replace

import torch

from headway.attention.cache import KeyValueCache, KeyValues
from headway.attention.documents import Documents
from headway.attention.grouped import GroupedQueryAttention
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention, split_heads
from headway.attention.relative import Past, Rotary, added, positions_after
from headway.base.shapes import Float, Int, Tensor
from headway.transforms.fast.cache import PreallocatedKeyValues
from headway.transforms.fast.documents import unpacked
from headway.transforms.fast.joint import linears
from headway.transforms.fast.positions import step_positions
from headway.transforms.fast.static_cache import StaticKeyValues
from headway.transforms.tracing import tracing


class FastMultiHeadAttention(MultiHeadAttention):
    """`MultiHeadAttention` with four savings.

    Queries, keys and values of self-attention are one matrix product where their weights are
    adjacent in memory; packed documents attend as sequences of their own, so that n documents of
    length L cost n L^2 instead of (n L)^2 (not while `tracing`: another batch has other lengths);
    positions are computed once for all layers; and caches are preallocated.
    """

    cache_type = PreallocatedKeyValues

    def keys_values(self, source: Float[Tensor, "M S E"], past: Past = (0,)) -> KeyValues:
        k, v = super().keys_values(source, past)
        if torch.is_grad_enabled():
            return KeyValues(k, v)
        # each decoding step reads them head by head
        return KeyValues(k.contiguous(), v.contiguous())

    def positions_after(
        self, past: Past, num_tokens: int, device: torch.device
    ) -> Int[Tensor, "#N T"]:
        return step_positions(past, num_tokens, device)

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        source: Float[Tensor, "N S E"] | KeyValues,
        mask: Mask,
        bias: Float[Tensor, "#N #H T S"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "N T D"]:
        past: Past = (0,) if cache is None else cache.past
        if isinstance(cache, StaticKeyValues) and not self.has_bias():
            projections = linears(x, (self.query, self.key, self.value))
            out: Tensor = self.output(self.context_of_new(cache, *projections))
            return out
        if source is x:
            queries, keys, values = linears(x, (self.query, self.key, self.value))
            documents = None if tracing(x, *self.query._parameters.values()) else mask.documents
            if documents is not None and mask.causal and bias is None and cache is None:
                return self._within_documents(queries, keys, values, mask, documents)
            k, v = self.split_keys_values(keys, values, past)
        else:
            queries = self.query(x)
            k, v = source if isinstance(source, KeyValues) else self.keys_values(source, past)
        if cache is not None:
            k, v, mask = cache.append(k, v)
        if queries.shape[0] != k.shape[0]:  # beams that share keys are more queries of one row
            queries = queries.view(k.shape[0], -1, queries.shape[-1])
        q = self.split_queries(queries)
        if self.positions is not None:
            at = self.positions_after(past, x.shape[1], x.device)
            q, bias = self.positions.rotate(q, at), added(bias, self.positions.bias(at, k.shape[2]))
        return self._merged(self.kernel(q, k, v, mask, bias), x)

    def has_bias(self) -> bool:
        """Whether positions change the scores: rotary ones change queries and keys alone."""
        return self.positions is not None and not isinstance(self.positions, Rotary)

    def context_of_new(
        self,
        cache: StaticKeyValues,
        queries: Float[Tensor, "N 1 HK"],
        keys: Float[Tensor, "N 1 GK"],
        values: Float[Tensor, "N 1 GKv"],
    ) -> Float[Tensor, "N 1 HKv"]:
        """Return the contexts of one new token of each text, whose keys and values are appended."""
        q = self.split_queries(queries)
        k, v = self.split_keys_values(keys, values, cache.past)
        if self.positions is not None:
            q = self.positions.rotate(q, self.positions_after(cache.past, 1, q.device))
        context = cache.attend(self.kernel, q, k, v)
        return context.transpose(1, 2).flatten(2)  # N H 1 Kv -> N 1 HKv

    def _within_documents(
        self,
        queries: Float[Tensor, "N T HK"],
        keys: Float[Tensor, "N T GK"],
        values: Float[Tensor, "N T GKv"],
        mask: Mask,
        documents: Documents,
    ) -> Float[Tensor, "N T D"]:
        """Attend within each document, as if it were a sequence of its own."""
        heads = (
            self.split_queries(queries),
            self.split_keys(keys),
            split_heads(values, self.value_dim),
        )
        apart, mask = unpacked(documents), replace(mask, documents=None)
        contexts = []
        for q, k, v in zip(*(apart.split(part) for part in heads), strict=True):
            bias = None
            if self.positions is not None:
                at = positions_after([0], q.shape[2], q.device)
                q, k = self.positions.rotate(q, at), self.positions.rotate(k, at)
                bias = self.positions.bias(at, k.shape[2])
            contexts.append(self.kernel(q, k, v, mask, bias))
        return self._merged(apart.join(contexts), queries)

    def _merged(
        self, context: Float[Tensor, "M H U Kv"], x: Float[Tensor, "N T _"]
    ) -> Float[Tensor, "N T D"]:
        merged = context.transpose(1, 2).reshape(*x.shape[:2], -1)  # M H U Kv -> N T HKv
        out: Tensor = self.output(merged)
        return out


class FastGroupedQueryAttention(FastMultiHeadAttention, GroupedQueryAttention):
    """`GroupedQueryAttention` with the savings of `FastMultiHeadAttention`."""
