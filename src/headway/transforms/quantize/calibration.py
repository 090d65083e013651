"""Statistics of the inputs of linear layers, collected while a model reads typical inputs."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from headway.base.shapes import Float, Tensor


def input_products(
    layers: Iterable[nn.Module], calibrate: Callable[[], object]
) -> dict[Tensor, Float[Tensor, "I I"]]:
    """Return the sum of x x^T over all inputs of each matrix while `calibrate` runs."""
    sums: dict[Tensor, Tensor] = {}

    def add(layer: nn.Linear, inputs: tuple[Tensor, ...]) -> None:
        rows = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).float()
        sums[layer.weight] = sums.get(layer.weight, torch.zeros(())) + rows.T @ rows

    linears = {layer for layer in layers if isinstance(layer, nn.Linear)}
    hooks = [layer.register_forward_pre_hook(add) for layer in linears]
    try:
        with torch.no_grad():
            calibrate()
    finally:
        for hook in hooks:
            hook.remove()
    return sums
