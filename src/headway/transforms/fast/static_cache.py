"""A cache of fixed size, for steps that are recorded once: what changes is in tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.attention import Kernel, KeyValueCache, Mask, Past
from headway.base.shapes import Float, Int, Tensor
from headway.transforms.fast.dot import FusedDot
from headway.transforms.kernels import computes

SHORT = 256
"""Capacity up to which one kernel stores and attends. Beyond it torch's attention is faster, which
divides the keys of a head among programs."""


class StaticKeyValues(KeyValueCache):
    """Keys and values in tensors of fixed size: the new token of row n is at position past[n].

    All S positions are returned, of which the mask hides those after the new token. `past` is a
    tensor, so that a recorded step works for any lengths; `lengths` is not used.
    """

    def __init__(
        self,
        stores: Sequence[Float[Tensor, "R G S _"]],
        rows: Int[Tensor, " R"],
        past: Int[Tensor, " R"],
    ) -> None:
        super().__init__(len(past))
        self._keys, self._values = stores
        self._rows, self._past = rows, past

    @property
    def past(self) -> Past:
        return self._past

    def append(
        self, k: Float[Tensor, "R G 1 K"], v: Float[Tensor, "R G 1 Kv"]
    ) -> tuple[Float[Tensor, "R G S K"], Float[Tensor, "R G S Kv"], Mask]:
        for store, new in ((self._keys, k), (self._values, v)):
            store[self._rows, :, self._past] = new[:, :, 0].to(store.dtype)  # R G 1 K -> R G K
        return self._keys, self._values, Mask(causal=True, past=self._past)

    def attend(
        self,
        kernel: Kernel,
        q: Float[Tensor, "R H 1 K"],
        k: Float[Tensor, "R G 1 K"],
        v: Float[Tensor, "R G 1 Kv"],
    ) -> Float[Tensor, "R H 1 Kv"]:
        """Append the new tokens; return the context of each, by attention without a bias."""
        is_short = self._keys.shape[2] <= SHORT and type(kernel) is FusedDot
        if is_short and computes(q) and q.dtype == self._keys.dtype and not torch.is_grad_enabled():
            from headway.transforms.kernels.new_token import attend_new_tokens

            return attend_new_tokens(q, k, v, (self._keys, self._values), self._past)
        keys, values, mask = self.append(k, v)
        context: Tensor = kernel(q, keys, values, mask, None)
        return context
