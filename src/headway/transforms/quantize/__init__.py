"""Quantisation: store the matrices of a finished model in small numbers.

    small = quantize(model, "int8")      # one byte for each weight, products of integers
    small = quantize(model, "int4")      # half a byte, for language models that must be small
    small = quantize(model, "bfloat16")  # two bytes, nearly the same numbers

Linear layers and embeddings are replaced, except those of fewer than `SMALLEST` weights; norms,
biases, position tables and recurrent cells stay float32. `fast` then gives the layers the fastest
product of this machine (`transforms/fast/quantized.py`).

A saved model has, in place of `NAME.weight`, `NAME.weight_int8` (O I) and `NAME.weight_scale` (O
I/32); `NAME.weight_int4` (O I/2, two codes a byte), `NAME.weight_scale` and `NAME.weight_centre` (O
I/g); or `NAME.weight_bfloat16`.
docs/quantisation.md has the whole format.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn

from headway.base.shapes import Tensor
from headway.transforms.quantize.calibration import input_products
from headway.transforms.quantize.gptq import calibrated_int4
from headway.transforms.quantize.layers import (
    EMBEDDINGS,
    LINEARS,
    QuantizedEmbedding,
    QuantizedLinear,
)
from headway.transforms.quantize.numbers import GROUP, GROUPS, NUMBERS, Int4, NumberName
from headway.transforms.twins import plain_class

M = TypeVar("M", bound=nn.Module)

SMALLEST = 1024
"""Matrices with fewer weights stay float32: they gain nothing."""


def quantize(
    model: M,
    to: str,
    *,
    group: int = GROUP,
    calibrate: Callable[[], object] | None = None,
) -> M:
    """Store the model's matrices in small numbers, in place; return the model.

    to: int8, int4 or bfloat16. group: number of consecutive inputs that share a scale in int4: 32,
    64 or 128. calibrate: for int4; runs the float32 model on typical inputs, so that each layer is
    rounded to change its outputs for these inputs least (`gptq.py`), instead of each weight to its
    nearest code. Replaced parameters are not trained any more. To replace the model itself, use the
    returned one. ValueError for unknown numbers, calibration of other numbers than int4, a model
    that is quantised already, and a model without a matrix that is large enough.
    """
    if to not in NUMBERS:
        raise ValueError(f"{to=} must be one of: {', '.join(NUMBERS)}")
    if group not in GROUPS:
        raise ValueError(f"{group=} must be one of: {', '.join(map(str, GROUPS))}")
    if calibrate is not None and to != "int4":
        raise ValueError(f"{to} needs no calibration; leave it out, or choose int4")
    if is_quantized(model):
        raise ValueError("the model is quantised already; quantise the float32 model instead")
    layers = _large_layers(model)
    if not layers:
        raise ValueError(
            f"the model has no linear layer or embedding of at least {SMALLEST:,} weights"
        )
    products = {} if calibrate is None else input_products(layers.values(), calibrate)
    stored: dict[Tensor, tuple[str, dict[str, nn.Parameter]]] = {}
    with torch.no_grad():
        for layer in layers.values():
            if layer.weight in stored:
                continue
            weight = layer.weight.detach().float()
            if layer.weight in products:
                codes = calibrated_int4(weight, products[layer.weight], group)
            else:
                codes = NUMBERS[to].encode(weight, group)
            stored[layer.weight] = to, _as_parameters(codes)
    return _with_stored(model, layers, stored)


def dequantize(model: M) -> M:
    """Store the model's matrices in float32 again, in place; the parameters keep their names.

    The numbers are those that the small ones stand for, so int8 and int4 do not give back what was
    rounded away. A model that is not quantised is not changed.
    """
    weights: dict[Tensor, nn.Parameter] = {}
    plain: dict[nn.Module, nn.Module] = {}
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(layer, QuantizedLinear | QuantizedEmbedding):
            continue
        if layer not in plain:
            key = next(iter(layer.stored().values()))
            if key not in weights:
                weights[key] = nn.Parameter(layer.weight.detach().clone())
            plain[layer] = _plain(layer, weights[key])
        model.set_submodule(name, plain[layer])
    return model


def float32_copy(model: M) -> M:
    """Return the model itself, or a float32 copy of a quantised model."""
    return dequantize(deepcopy(model)) if is_quantized(model) else model


def is_quantized(model: nn.Module) -> bool:
    """Whether `quantize` was applied to the model."""
    return numbers_of(model) is not None


def numbers_of(model: nn.Module) -> NumberName | None:
    """Return the numbers that the model's linear layers are stored in, or None for float32."""
    kinds = [m.numbers.name for m in model.modules() if isinstance(m, QuantizedLinear)]
    kinds += [m.numbers.name for m in model.modules() if isinstance(m, QuantizedEmbedding)]
    return kinds[0] if kinds else None


def prepare(model: M, tensors: Mapping[str, Tensor]) -> M:
    """Give a model on the meta device the layers whose stored numbers are among `tensors`.

    The values stay on the meta device: names, shapes and dtypes follow from the model's own layers
    and the names of the tensors, so a file cannot ask for more memory than the model needs.
    """
    layers = {
        name: layer
        for name, layer in model.named_modules(remove_duplicate=False)
        if isinstance(layer, nn.Linear | nn.Embedding)
    }
    stored: dict[Tensor, tuple[str, dict[str, nn.Parameter]]] = {}
    for name, layer in layers.items():
        for numbers in NUMBERS.values():
            if f"{name}.{numbers.names[0]}" in tensors:
                rows, columns = layer.weight.shape
                shapes = numbers.shapes(rows, columns, _group(name, tensors))
                parts = {n: torch.empty(s, dtype=d, device="meta") for n, (d, s) in shapes.items()}
                stored[layer.weight] = numbers.name, _as_parameters(parts)
    return _with_stored(model, layers, stored)


def _group(name: str, tensors: Mapping[str, Tensor]) -> int:
    """Return the group size of a layer in int4; it does not matter for other numbers."""
    codes, scale = tensors.get(f"{name}.weight_int4"), tensors.get(f"{name}.weight_scale")
    return GROUP if codes is None or scale is None else Int4.group_of(codes, scale)


def _large_layers(model: nn.Module) -> dict[str, nn.Linear | nn.Embedding]:
    """Return the layers to replace, by name. A class of the user's own keeps its code."""
    return {
        name: layer
        for name, layer in model.named_modules(remove_duplicate=False)
        if isinstance(layer, nn.Linear | nn.Embedding)
        and plain_class(layer) in (nn.Linear, nn.Embedding)
        and layer.weight.numel() >= SMALLEST
    }


def _with_stored(
    model: M,
    layers: Mapping[str, nn.Linear | nn.Embedding],
    stored: Mapping[Tensor, tuple[str, dict[str, nn.Parameter]]],
) -> M:
    """Replace each layer whose matrix is among `stored`; layers and matrices stay shared."""
    users = Counter(layer.weight for layer in set(layers.values()))
    replaced: dict[nn.Module, nn.Module] = {}
    for name, layer in layers.items():
        if layer.weight in stored and layer not in replaced:
            kind, parts = stored[layer.weight]
            if isinstance(layer, nn.Linear):
                replaced[layer] = linear = LINEARS[kind].of(layer, parts)
                linear.shared = users[layer.weight] > 1
            else:
                replaced[layer] = EMBEDDINGS[kind].of(layer, parts)
        if layer in replaced:
            model.set_submodule(name, replaced[layer])
    return model


def _as_parameters(tensors: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
    return {n: nn.Parameter(value, requires_grad=False) for n, value in tensors.items()}


def _plain(layer: QuantizedLinear | QuantizedEmbedding, weight: nn.Parameter) -> nn.Module:
    """Return the float32 layer with this matrix and the layer's bias."""
    plain: nn.Linear | nn.Embedding
    if isinstance(layer, QuantizedLinear):
        plain = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
        plain.bias = layer.bias
    else:
        plain = nn.Embedding(layer.num_embeddings, layer.embedding_dim, device="meta")
    plain.weight = weight
    return plain.train(layer.training)


__all__ = [
    "GROUP",
    "NUMBERS",
    "NumberName",
    "QuantizedEmbedding",
    "QuantizedLinear",
    "dequantize",
    "float32_copy",
    "is_quantized",
    "numbers_of",
    "prepare",
    "quantize",
]
