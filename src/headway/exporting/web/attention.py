"""The graphs of a model with one more kind of outputs: the attention weights of every layer."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import nn

from headway.attention import record_attention
from headway.base.shapes import Tensor
from headway.bundle import part_of
from headway.exporting.families import graphs_of
from headway.exporting.graphs import BATCH, LENGTH, SOURCE, TOTAL, Axes, Graph
from headway.exporting.onnx.writing import TRACED

NAME = "{part}_attentions.{layer}"
"""Name of an output: "B H T S". Layers are counted from 0 in each part of the model."""


def graphs_with_attention(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model of plain classes, whose outputs include attention weights."""
    return [_with_attention(graph, model) for graph in graphs_of(model)]


def _with_attention(graph: Graph, model: nn.Module) -> Graph:
    compute: Callable[..., tuple[Tensor, ...]] = graph.module.forward

    @wraps(compute)  # torch reads the names of the inputs from it
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        with record_attention(model) as maps:
            outputs = compute(*inputs)
        return (*outputs, *(weights for calls in maps.values() for weights in calls))

    axes = _axes_of_maps(graph, model)
    # the module, not a module around it, since the exporter reads the signature of its method
    setattr(graph.module, "forward", forward)  # noqa: B010
    return replace(graph, outputs={**graph.outputs, **axes})


def _axes_of_maps(graph: Graph, model: nn.Module) -> dict[str, Axes]:
    """Return the name and the axes of the weights of each layer that the graph computes."""
    example = graph.example(TRACED, torch.Generator().manual_seed(0))
    past = [i for i, one in enumerate(graph.inputs) if one.name.startswith("past_")]
    arguments: list[Any] = example if not past else [*example[: past[0]], example[past[0] :]]
    with torch.no_grad(), record_attention(model) as maps:
        graph.module(*arguments)
    names = {argument.name for argument in graph.inputs}
    has_image = "pixel_values" in names or "encoder_attention_mask" not in names
    axes: dict[str, Axes] = {}
    counts: dict[str, int] = {}
    for layer, calls in maps.items():
        part = part_of(layer)
        for weights in calls:
            _, heads, queries, keys = weights.shape
            side: Axes
            if part == "cross":
                side = (LENGTH, keys if has_image else SOURCE)
            elif part == "decoder" and past:
                side = (LENGTH, TOTAL)
            elif "pixel_values" in names:
                side = (queries, keys)
            else:
                length = SOURCE if graph.name == "encoder_model" else LENGTH
                side = (length, length)
            name = NAME.format(part=part, layer=counts.get(part, 0))
            counts[part] = counts.get(part, 0) + 1
            axes[name] = (BATCH, heads, *side)
    return axes
