"""What attention means beyond single weights: through all layers, and by the length of what it
carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from headway.errors import UsageError
from headway.inspection.document import Maps
from headway.shapes import Float, Tensor


def rollout(weights: Sequence[Float[Tensor, "H T T"]]) -> list[Float[Tensor, "T T"]]:
    """R_l = A_l R_(l-1), A_l = 0.5 (mean over heads of layer l) + 0.5 I, R_0 = I: how much of each
    input token is left at each place after each layer, where the residual carries half. Abnar and
    Zuidema 2020, section 3. Rows sum to 1.
    """
    found: list[Tensor] = []
    for layer in weights:
        mean = layer.mean(0).double()
        identity = torch.eye(len(mean), dtype=mean.dtype)
        step = 0.5 * mean + 0.5 * identity
        found.append(step @ found[-1] if found else step)
    return [each.float() for each in found]


def rolled(maps: Maps) -> Maps:
    """The rollout of a self-attention's maps, as one head a layer. UsageError for attention between
    two sides, or whose weights are no shares."""
    if maps.queries != maps.keys or not maps.normalised:
        raise UsageError(
            f"there is no rollout of {maps.name}",
            hint="only self-attention whose weights sum to 1 can be rolled out",
        )
    weights = [each[None] for each in rollout(maps.weights)]
    return replace(maps, measure="rollout", weights=weights, kinds=(), vectors=())


def value_weighted(
    weights: Float[Tensor, "H T S"], norms: Float[Tensor, "H S"]
) -> Float[Tensor, "H T S"]:
    """|a[h, t, s] v[h, s] W_O^h|: what a key adds to a query, by its length. A large weight on a
    short value (a sink) is little. Kobayashi et al. 2020, equation 4."""
    return weights.abs() * norms[:, None]


def weighted(maps: Maps) -> Maps:
    """The value-weighted maps of attention whose `vectors` were kept. ValueError without them."""
    if len(maps.vectors) != len(maps.weights):
        raise ValueError(f"the vectors of {maps.name} were not kept")
    pairs = zip(maps.weights, maps.vectors, strict=True)
    found = [value_weighted(weights, own.norms) for weights, own in pairs]
    measure = "value-weighted"
    return replace(maps, measure=measure, weights=found, normalised=False, kinds=(), vectors=())
