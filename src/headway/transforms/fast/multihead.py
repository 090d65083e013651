"""Fast twins of multi-head attention: joint projections, packed documents apart, fewer copies."""

from dataclasses import replace

import torch

from headway.attention import (
    Documents,
    GroupedQueryAttention,
    KeyValues,
    LayerCache,
    Mask,
    MultiHeadAttention,
    Step,
)
from headway.base.shapes import Float, Tensor
from headway.transforms.fast.joint import linears
from headway.transforms.fast.static_cache import StaticLayer
from headway.transforms.tracing import tracing


class FastMultiHeadAttention(MultiHeadAttention):
    """`MultiHeadAttention` with two savings.

    Queries, keys and values of self-attention are one matrix product where their weights are
    adjacent in memory; packed documents attend as sequences of their own, so that n documents of
    length L cost n L^2 instead of (n L)^2 (not while `tracing`: another batch has other lengths).
    """

    def keys_values(self, source: Float[Tensor, "M S E"], step: Step | None = None) -> KeyValues:
        k, v = super().keys_values(source, step)
        if torch.is_grad_enabled():
            return KeyValues(k, v)
        # each decoding step reads them head by head
        return KeyValues(k.contiguous(), v.contiguous())

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        source: Float[Tensor, "N S E"] | KeyValues,
        mask: Mask,
        step: Step | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "N T D"]:
        bias = None
        if self.positions is not None:
            whole = Step.whole(x.shape[1], mask, x.device) if step is None else step
            step = whole.placed(self.positions, x.dtype)
            bias = step.bias
        if source is x:
            queries, keys, values = linears(x, (self.query, self.key, self.value))
            if isinstance(cache, StaticLayer) and step is not None and bias is None:
                return self.output(self.context_of_new(step, cache, queries, keys, values))
            k, v = self.split_keys_values(keys, values, step)
            documents = None if tracing(x, *self.query._parameters.values()) else mask.documents
            if documents is not None and mask.causal and cache is None:
                q = self.rotated(self.split_queries(queries), step)
                context = self._within_documents(q, k, v, mask, documents)
                return self.output(context.transpose(1, 2).flatten(2))
        else:
            queries = self.query(x)
            k, v = source if isinstance(source, KeyValues) else self.keys_values(source, step)
        if cache is not None and step is not None:
            k, v = cache.append(step, k, v)
        q = self.rotated(self.split_queries(mask.sharing.gather(queries, k.shape[0])), step)
        merged = self.kernel(q, k, v, mask, bias).transpose(1, 2).flatten(2)
        return self.output(mask.sharing.scatter(merged, x.shape[1]))

    def context_of_new(
        self,
        step: Step,
        cache: StaticLayer,
        queries: Float[Tensor, "N 1 HK"],
        keys: Float[Tensor, "N 1 GK"],
        values: Float[Tensor, "N 1 GKv"],
    ) -> Float[Tensor, "N 1 HKv"]:
        """Return the contexts of one new token of each text, whose keys and values are appended."""
        q = self.rotated(self.split_queries(queries), step)
        k, v = self.split_keys_values(keys, values, step)
        context = cache.attend(step, self.kernel, q, k, v)
        return context.transpose(1, 2).flatten(2)  # N H 1 Kv -> N 1 HKv

    def _within_documents(
        self,
        q: Float[Tensor, "N H T K"],
        k: Float[Tensor, "N G T K"],
        v: Float[Tensor, "N G T Kv"],
        mask: Mask,
        documents: Documents,
    ) -> Float[Tensor, "N H T Kv"]:
        """Attend within each document, as if it were a sequence of its own."""
        alone, contexts = mask.made.setdefault("alone", replace(mask, documents=None)), []
        for of_group in zip(*(documents.apart.split(part) for part in (q, k, v)), strict=True):
            step = Step.whole(of_group[0].shape[2], alone, q.device)
            bias = None if self.positions is None else step.placed(self.positions, q.dtype).bias
            contexts.append(self.kernel(*of_group, alone, bias))
        return documents.apart.join(contexts)


class FastGroupedQueryAttention(FastMultiHeadAttention, GroupedQueryAttention):
    """`GroupedQueryAttention` with the savings of `FastMultiHeadAttention`."""
