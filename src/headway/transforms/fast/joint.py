"""Several linear layers of the same inputs as one product, such as queries, keys and values."""

from collections.abc import MutableMapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.transforms.fast.linear import FastLinear, linear
from headway.transforms.fast.memory import adjacent
from headway.transforms.fast.quantized import FastInt4Linear, FastInt8Linear, coded_linears
from headway.transforms.tracing import sharded, tracing


def linears(x: Float[Tensor, "*B I"], layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """Return each layer's output for x: one product if their matrices are adjacent in memory, or
    their int8 or int4 codes packed together, or while training on a GPU."""
    if any(has_hooks(layer) for layer in layers):
        return tuple(layer(x) for layer in layers)
    if torch.is_grad_enabled() or tracing(x):
        joined = _concatenated(layers) if x.is_cuda else None
    else:
        for kind in (FastInt8Linear, FastInt4Linear):
            coded = [layer for layer in layers if type(layer) is kind]
            if len(coded) == len(layers):
                return coded_linears(x, coded)
        joined = _joined(layers)
    if joined is None:
        return tuple(layer(x) for layer in layers)
    y = linear(x, *joined, getattr(layers[0], "invariant", False))
    return y.split_with_sizes([layer.out_features for layer in layers], dim=-1)


Joined = tuple[Tensor, Tensor | None]
"""The weights of several layers as one, and their biases."""

_JOINED: MutableMapping[nn.Linear, tuple[list[tuple[int, int]], Joined]] = WeakKeyDictionary()
"""First of the layers that were joined last -> where their parameters were, and the result, whose
memory no other tensor can have."""


def _joined(layers: Sequence[nn.Linear]) -> Joined | None:
    """Return the layers' weights and biases as one of each, if they are adjacent in memory."""
    if not all(type(layer) is FastLinear for layer in layers):
        return None
    # A decoding step asks in every layer, and finding out takes longer than a small product.
    known = _JOINED.get(layers[0])
    if known is not None and known[0] == _addresses(layers):
        return known[1]
    found = as_one([layer.weight for layer in layers], [layer.bias for layer in layers])
    if found is not None:
        _JOINED[layers[0]] = _addresses(layers), found
    elif known is not None:
        del _JOINED[layers[0]]
    return found


def _concatenated(layers: Sequence[nn.Linear]) -> Joined | None:
    """Return copies of the layers' weights and biases as one of each, within autograd.

    On a GPU a copy takes less time than the launches of two more products, and one large product
    and its gradients are faster than three.
    """
    weights: list[Tensor] = [layer.weight for layer in layers]
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    if not all(type(layer) is FastLinear for layer in layers) or sharded(*weights):
        return None
    if biases and len(biases) < len(layers):
        return None
    return torch.cat(weights), torch.cat(biases) if biases else None


def _addresses(layers: Sequence[nn.Linear]) -> list[tuple[int, int]]:
    """Return what changes if a parameter is replaced or moved: its identity and address."""
    parameters = (p for layer in layers for p in layer._parameters.values())
    return [(id(p), p.data_ptr()) for p in parameters if p is not None]


def as_one(weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> Joined | None:
    """Return the weights and biases of several layers as one of each, if adjacent in memory."""
    if tracing(*weights):
        return None
    weight = adjacent(weights)
    there = [bias for bias in biases if bias is not None]
    if weight is None or not there:
        return None if weight is None else (weight, None)
    bias = adjacent(there) if len(there) == len(biases) else None
    return None if bias is None else (weight, bias)


def has_hooks(layer: nn.Module) -> bool:
    """Whether something is to be called with the inputs or outputs of the module alone."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks)
