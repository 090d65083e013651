"""Watching attention from outside, at full speed and without changing a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from headway.attention.kernel import Kernel
from headway.shapes import Tensor

AttentionMaps = dict[str, list[Tensor]]
"""Name of an attention layer -> its weights, one Float "B H T S" for each call, in order."""


@contextmanager
def record_attention(model: nn.Module, layers: Sequence[str] = ()) -> Iterator[AttentionMaps]:
    """Collect the attention weights of every forward pass made inside the `with` block.

    The kernels run as always, so outputs are bit-identical to an unwatched run; the weights are
    computed beside them by `kernel.weights`, in float32. `layers` keeps only layers whose name
    starts with one of the given strings ("decoder.blocks.3"); an unknown one is an error.
    """
    kernels = {
        name.removesuffix(".kernel"): module
        for name, module in model.named_modules()
        if isinstance(module, Kernel)
    }
    for wanted in layers:
        if not any(name.startswith(wanted) for name in kernels):
            raise ValueError(f"no attention layer {wanted!r}; there are {', '.join(kernels)}")
    chosen = {n: m for n, m in kernels.items() if not layers or n.startswith(tuple(layers))}
    maps: AttentionMaps = {name: [] for name in chosen}
    handles = [module.register_forward_hook(_hook(maps[n])) for n, module in chosen.items()]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


def _hook(into: list[Tensor]) -> Any:
    def keep(kernel: Kernel, inputs: tuple[Any, ...], output: Tensor) -> None:
        q, k, _, mask, *rest = inputs
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            into.append(kernel.weights(q, k, mask, *rest))

    return keep
