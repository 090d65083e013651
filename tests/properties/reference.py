"""Attention spelled out pair by pair in float64, from the definitions alone: what captured weights
are measured against. It shares no line with the kernels."""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.attention import (
    Additive,
    Bilinear,
    Dot,
    Kernel,
    LinearDot,
    LinearElu,
    Mask,
    MultiHeadAttention,
    SlidingWindow,
)


def may_attend(mask: Mask, window: int | None, row: int, t: int, s: int, size: tuple) -> bool:
    """One pair by the rules in the docstring of `Mask`."""
    queries, keys = size
    place = (keys - queries if mask.past is None else int(mask.past[row])) + t
    windows = [w for w in (mask.window, window) if w is not None]
    return (
        (not mask.causal or s <= place)
        and all(abs(place - s) < w for w in windows)
        and (mask.keys is None or bool(mask.keys[row, s]))
    )


class Spelled(Kernel):
    """What `kernel` means. Every forward pass leaves its weights in `seen`."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.of = kernel
        self.seen: list[Tensor] = []

    def _scores(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        """Of one query and S keys."""
        of = self.of
        if isinstance(of, Additive):
            return torch.tanh(k @ of.of_key[head] + q @ of.of_query[head]) @ of.vector[head]
        if isinstance(of, Bilinear):
            return k @ (q @ of.matrix[head])
        if isinstance(of, LinearElu):
            return (F.elu(k) + 1) @ (F.elu(q) + 1)
        return k @ q / (1 if isinstance(of, Dot) else math.sqrt(len(q)))

    def _shares(self, scores: Tensor, bias: Tensor) -> Tensor:
        """Of one query: its scores as weights."""
        if isinstance(self.of, LinearDot):
            return scores + bias
        exps = scores * bias.exp() if isinstance(self.of, LinearElu) else (scores + bias).exp()
        return exps / exps.sum()

    def weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None = None) -> Tensor:
        rows, heads, queries, _ = q.shape
        keys = k.shape[2]
        window = self.of.window if isinstance(self.of, SlidingWindow) else None
        found = torch.zeros(rows, heads, queries, keys, dtype=torch.float64)
        added = found if bias is None else bias.double().expand(found.shape)
        for b in range(rows):
            for t in range(queries):
                size = (queries, keys)
                near = [s for s in range(keys) if may_attend(mask, window, b, t, s, size)]
                for h in range(heads if near else 0):
                    own = k[b, h * k.shape[1] // heads, near]
                    scores = self._scores(h, q[b, h, t], own)
                    found[b, h, t, near] = self._shares(scores, added[b, h, t, near])
        return found

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        self.seen.append(self.weights(q, k, mask, bias))
        values = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
        return self.seen[-1] @ values


def spelled(model: nn.Module) -> tuple[Any, dict[str, Spelled]]:
    """A copy of the model in float64, every attention spelled out; by name of the layer."""
    exact = copy.deepcopy(model).double()
    exact.register_forward_pre_hook(lambda _, inputs: tuple(map(_exactly, inputs)))
    kernels = {}
    for name, module in exact.named_modules():
        if isinstance(module, MultiHeadAttention):
            kernels[name] = module.kernel = Spelled(module.kernel)
    return exact, kernels


def _exactly(given: Any) -> Any:
    """Pictures in float64; ids and masks as they are."""
    return given.double() if isinstance(given, Tensor) and given.is_floating_point() else given
