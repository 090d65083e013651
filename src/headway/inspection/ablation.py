"""Head ablation: the output of attention heads set to 0, and how much a metric falls."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from headway.attention import Kernel, around_kernels, at_attention, attention_layers
from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.bundle import part_of

Head = tuple[str, int, int]
"""Name of a map ("encoder", "decoder", "cross"), layer and head; both are counted from 0."""


def layers_of(model: nn.Module) -> dict[str, list[str]]:
    """Return the names of the attention layers of each map, in order."""
    layers: dict[str, list[str]] = {}
    for name in attention_layers(model):
        layers.setdefault(part_of(name), []).append(name)
    return layers


def heads_of(model: nn.Module) -> dict[str, list[int]]:
    """Return the number of heads of each layer of each map."""
    around = around_kernels(model)
    kernels = attention_layers(model)
    return {
        part: [around[kernels[name]].num_heads for name in names]
        for part, names in layers_of(model).items()
    }


@contextmanager
def without_heads(model: nn.Module, heads: Iterable[Head]) -> Iterator[None]:
    """Set the output (context) of these heads to 0 before W_O, in every forward pass and decoding
    step inside the `with` block. Michel et al. 2019, section 2.3.

    Raises UsageError for a map, layer or head that the model does not have.
    """
    names, counts = layers_of(model), heads_of(model)
    off: dict[str, list[int]] = {}
    for part, layer, head in heads:
        if part not in names:
            raise UsageError(
                f"the model has no attention map {part!r}; "
                f"its maps are {', '.join(names) or 'none'}"
            )
        if not 0 <= layer < len(names[part]):
            raise UsageError(
                f"{part} has no layer {layer}: its layers are 0 to {len(names[part]) - 1}"
            )
        if not 0 <= head < counts[part][layer]:
            raise UsageError(
                f"layer {layer} of {part} has no head {head}: its heads are 0 to "
                f"{counts[part][layer] - 1}"
            )
        off.setdefault(names[part][layer], []).append(head)

    def silence(name: str, _: Kernel, inputs: tuple[object, ...], output: Tensor) -> Tensor | None:
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
    """Return importance[map][layer][head]: the fall of the metric when that head alone is ablated.

    metric: computed once with all heads and once without each head; larger must be better. heads:
    the heads to ablate; if None, all. Heads that are left out get NaN. Michel et al. 2019, section
    3.2.
    """
    counts = heads_of(model)
    importance = {part: [[float("nan")] * n for n in layers] for part, layers in counts.items()}
    whole = metric()
    for part, layer, head in all_heads(counts) if heads is None else heads:
        with without_heads(model, [(part, layer, head)]):
            importance[part][layer][head] = whole - metric()
    return importance


def all_heads(counts: Mapping[str, list[int]]) -> list[Head]:
    """Return all heads, from the counts that `heads_of` returns."""
    return [
        (part, layer, head)
        for part, layers in counts.items()
        for layer, count in enumerate(layers)
        for head in range(count)
    ]
