"""SmoothQuant: move the large inputs of a layer into its weights before both are rounded to int8.

    x W^T = (x t) (W / t)^T,   t[i] = sqrt(max_o |W[o, i]| / a[i]),   a[i] = rms of x[:, i]

A few inputs of a Transformer's layers are much larger than the others, which then are left with few
of the 255 steps of a row. t makes inputs and weights equally uneven. Xiao et al. 2023, section 4,
with a migration strength of 0.5, and the root mean square in place of the maximum.

>>> weight, squares = torch.tensor([[1.0, 1.0], [-1.0, 0.5]]), torch.tensor([16.0, 1.0])
>>> column_scales([weight], {weight: squares})[weight]  # the first input is 4 times as large
tensor([0.5000, 1.0000])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from headway.base.shapes import Float, Tensor

LEAST = 0.01
"""Least size of a column, relative to the mean: inputs that were always 0 may be large later."""


def column_scales(
    weights: Iterable[Float[Tensor, "_ _"]], squares: Mapping[Tensor, Float[Tensor, " _"]]
) -> dict[Tensor, Float[Tensor, " _"]]:
    """Return t of each matrix, given the sum of the squares of its inputs.

    Matrices with the same inputs, such as those of queries, keys and values, get the same tensor,
    so that one product can compute them all.
    """
    groups: list[tuple[Tensor, list[Tensor]]] = []
    for weight in weights:
        of_inputs = squares[weight]
        group = next((g for known, g in groups if torch.equal(known, of_inputs)), None)
        if group is None:
            groups.append((of_inputs, [weight]))
        else:
            group.append(weight)
    scales: dict[Tensor, Tensor] = {}
    for of_inputs, group in groups:
        largest = torch.stack([weight.detach().float().abs().amax(0) for weight in group]).amax(0)
        ratio = _bounded(largest) / _bounded(of_inputs.sqrt())
        t = (ratio / ratio.max()).sqrt()
        scales.update(dict.fromkeys(group, t))
    return scales


def _bounded(sizes: Float[Tensor, " I"]) -> Float[Tensor, " I"]:
    return sizes.clamp_min(max(LEAST * float(sizes.mean()), torch.finfo(torch.float32).tiny))
