"""Heads switched off: what does a model lose without them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from headway.attention import Kernel, around_kernels, at_attention, attention_layers
from headway.bundle import part_of
from headway.errors import UsageError
from headway.shapes import Tensor

Head = tuple[str, int, int]
"""Name of a map ("encoder", "decoder", "cross"), layer and head, both from 0."""


def layers_of(model: nn.Module) -> dict[str, list[str]]:
    """Name of a map -> its attention layers, in order."""
    found: dict[str, list[str]] = {}
    for name in attention_layers(model):
        found.setdefault(part_of(name), []).append(name)
    return found


def heads_of(model: nn.Module) -> dict[str, list[int]]:
    """Name of a map -> the number of heads of each of its layers."""
    around = around_kernels(model)
    kernels = attention_layers(model)
    return {
        part: [around[kernels[name]].num_heads for name in names]
        for part, names in layers_of(model).items()
    }


@contextmanager
def without_heads(model: nn.Module, heads: Iterable[Head]) -> Iterator[None]:
    """Inside the `with` block these heads bring nothing: their context is 0 before W_O, in every
    pass, decoding included. Any head of any model. Michel et al. 2019, section 2.3.

    UsageError for a head that is not there.
    """
    names, counts = layers_of(model), heads_of(model)
    off: dict[str, list[int]] = {}
    for part, layer, head in heads:
        if part not in names:
            raise UsageError(f"the model has no {part!r}; it has {', '.join(names) or 'no heads'}")
        if not 0 <= layer < len(names[part]):
            raise UsageError(f"{part} has no layer {layer}: they are 0 to {len(names[part]) - 1}")
        if not 0 <= head < counts[part][layer]:
            raise UsageError(
                f"layer {layer} of {part} has no head {head}: they are 0 to "
                f"{counts[part][layer] - 1}"
            )
        off.setdefault(names[part][layer], []).append(head)

    def silence(name: str, _: Kernel, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        if name not in off:
            return None
        context = output.clone()
        context[:, off[name]] = 0  # B H T Kv
        return context

    with at_attention(model, (), silence):
        yield


def head_importance(
    model: nn.Module,
    metric: Callable[[], float],
    heads: Iterable[Head] | None = None,
) -> dict[str, list[list[float]]]:
    """importance[map][layer][head]: how far the metric falls when that head alone is off.

    metric: computed once with all heads and once for each; more is better. heads: which ones are
    tried, all unless given; the others get NaN. Michel et al. 2019, section 3.2.
    """
    counts = heads_of(model)
    found = {part: [[float("nan")] * n for n in layers] for part, layers in counts.items()}
    whole = metric()
    for part, layer, head in every_head(counts) if heads is None else heads:
        with without_heads(model, [(part, layer, head)]):
            found[part][layer][head] = whole - metric()
    return found


def every_head(counts: Mapping[str, list[int]]) -> list[Head]:
    """All heads of `heads_of`."""
    return [
        (part, layer, head)
        for part, layers in counts.items()
        for layer, count in enumerate(layers)
        for head in range(count)
    ]
