"""GPTQ: round the weights so that a layer's outputs for typical inputs change least.

    minimise  sum over inputs x of |W x - W' x|^2,   H = sum of x x^T,   U^T U = H^-1,  U upper

Column i is rounded to the nearest code. The columns that are not rounded yet compensate its error:

    e = (W[:, i] - W'[:, i]) / U[i, i],    W[:, j] -= e U[i, j]  for j > i

Frantar et al. 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from headway.shapes import Float, Tensor
from headway.transforms.quantize.numbers import int4_codes, int4_grid, paired

DAMPING = 0.01
"""Added to the diagonal of H, as a fraction of its mean: inputs may be linearly dependent."""


def input_products(
    layers: Iterable[nn.Module], calibrate: Callable[[], object]
) -> dict[Tensor, Float[Tensor, "I I"]]:
    """Return H, the sum of x x^T over all inputs of each linear layer while `calibrate` runs."""
    products: dict[Tensor, Tensor] = {}

    def add(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        rows = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).float()
        weight: Any = layer.weight
        products[weight] = products.get(weight, torch.zeros(())) + rows.T @ rows

    linears = {layer for layer in layers if isinstance(layer, nn.Linear)}
    hooks = [layer.register_forward_pre_hook(add) for layer in linears]
    try:
        with torch.no_grad():
            calibrate()
    finally:
        for hook in hooks:
            hook.remove()
    return products


@torch.no_grad()
def calibrated_int4(
    weight: Float[Tensor, "O I"], product: Float[Tensor, "I I"], group: int
) -> dict[str, Tensor]:
    """Return the int4 numbers of a matrix, given H of its inputs."""
    upper = _inverse_root(product)
    rest = weight.clone()
    codes, scales, centres = [], [], []
    for start in range(0, weight.shape[1], group):
        block = rest[:, start : start + group].clone()
        scale, centre = int4_grid(block, group)
        errors = torch.empty_like(block)
        for i in range(block.shape[1]):
            root = upper[start + i, start : start + group]
            code = int4_codes(block[:, None, i : i + 1], scale, centre)[:, 0, 0]
            rounded = (code.float() - 8) * scale[:, 0].float() + centre[:, 0].float()
            errors[:, i] = (block[:, i] - rounded) / root[i]
            block[:, i + 1 :] -= errors[:, i, None] * root[i + 1 :]
            codes.append(code)
        rest[:, start + group :] -= errors @ upper[start : start + group, start + group :]
        scales.append(scale)
        centres.append(centre)
    codes += [torch.zeros_like(codes[0])] * (-weight.shape[1] % group)
    return {
        "weight_int4": paired(torch.stack(codes, 1)),
        "weight_scale": torch.cat(scales, 1),
        "weight_centre": torch.cat(centres, 1),
    }


def _inverse_root(product: Float[Tensor, "I I"]) -> Float[Tensor, "I I"]:
    """Return the upper triangular U with U^T U = (H + damping)^-1, in float32."""
    damped = product.double()
    unused = damped.diagonal() == 0  # inputs that are always 0: any rounding will do
    damped.diagonal().add_(DAMPING * damped.diagonal().mean()).masked_fill_(unused, 1.0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    upper: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return upper.float()
