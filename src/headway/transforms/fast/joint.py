"""Several linear layers of the same inputs as one product, such as queries, keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from headway.shapes import Float, Tensor
from headway.transforms.fast.linear import FastLinear, linear
from headway.transforms.fast.memory import adjacent
from headway.transforms.fast.quantized import FastInt8Linear, int8_linears
from headway.transforms.tracing import tracing


def linears(x: Float[Tensor, "*B I"], layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """Return each layer's output for x: one product if their matrices are adjacent in memory, or
    their int8 codes packed together."""
    if torch.is_grad_enabled() or tracing(x) or any(_has_hooks(layer) for layer in layers):
        return tuple(layer(x) for layer in layers)
    small = [layer for layer in layers if type(layer) is FastInt8Linear]
    if len(small) == len(layers):
        return int8_linears(x, small)
    joined = _joined(layers)
    if joined is None:
        return tuple(layer(x) for layer in layers)
    y = linear(x, *joined, packed_by=[layer for layer in layers if isinstance(layer, FastLinear)])
    return torch.split(y, [layer.out_features for layer in layers], dim=-1)


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None] | None:
    """Return the layers' weights and biases as one of each, if they are adjacent in memory."""
    if not all(type(layer) is FastLinear for layer in layers):
        return None
    if tracing(*(layer.weight for layer in layers)):
        return None
    weight = adjacent([layer.weight for layer in layers])
    biases = [layer.bias for layer in layers if layer.bias is not None]
    if weight is None or not biases:
        return None if weight is None else (weight, None)
    bias = adjacent(biases) if len(biases) == len(layers) else None
    return None if bias is None else (weight, bias)


def _has_hooks(layer: nn.Linear) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks)
