"""A cache of fixed size, for steps that are recorded once: what changes is in tensors."""

from collections.abc import Sequence

import torch

from headway.attention import Kernel, KeyValueCache, LayerCache, Mask, Past, Step, positions_after
from headway.base.shapes import Float, Int, Tensor
from headway.transforms.fast.dot import FusedDot
from headway.transforms.kernels import computes

SHORT = 256
"""Capacity up to which one kernel stores and attends. Beyond it torch's attention is faster, which
divides the keys of a head among programs."""


class StaticLayer(LayerCache):
    """Keys and values of one layer in tensors of fixed size."""

    def __init__(self, stores: Sequence[Float[Tensor, "R G S _"]]) -> None:
        super().__init__()
        self.stores = list(stores)

    def attend(
        self,
        step: Step,
        kernel: Kernel,
        q: Float[Tensor, "R H 1 K"],
        k: Float[Tensor, "R G 1 K"],
        v: Float[Tensor, "R G 1 Kv"],
    ) -> Float[Tensor, "R H 1 Kv"]:
        """Append the new tokens; return the context of each, by attention without a bias."""
        keys, values = self.stores
        is_short = keys.shape[2] <= SHORT and type(kernel) is FusedDot
        if is_short and computes(q) and q.dtype == keys.dtype and not torch.is_grad_enabled():
            from headway.transforms.kernels.new_token import attend_new_tokens

            return attend_new_tokens(q, k, v, (keys, values), step.positions[:, 0])
        return kernel(q, *self.append(step, k, v), step.mask, None)


class StaticCache(KeyValueCache):
    """Keys and values in tensors of fixed size: the new token of row n is at position past[n].

    All S positions are returned, of which the mask hides those after the new token. `past` is a
    tensor, so that a recorded step works for any lengths; `lengths` is not used.

    stores: by layer and kind. rows: the index of each row.
    """

    def __init__(
        self,
        stores: Sequence[Sequence[Float[Tensor, "R G S _"]]],
        rows: Int[Tensor, " R"],
        past: Int[Tensor, " R"],
    ) -> None:
        super().__init__(len(past), 0)
        self._layers = [StaticLayer(of_layer) for of_layer in stores]
        self._rows, self._past = rows, past

    @property
    def past(self) -> Past:
        return self._past

    def step(self, num_tokens: int, device: torch.device) -> Step:
        positions = positions_after(self._past, num_tokens, device)
        mask = Mask(causal=True, past=self._past)
        capacity = self._layers[0].stores[0].shape[2]
        return Step(positions, mask, capacity, rows=self._rows[:, None])
