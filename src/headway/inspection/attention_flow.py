"""Measures computed from attention weights: rollout through all layers, and value-weighted maps."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.inspection.document import Maps


def rollout(weights: Sequence[Float[Tensor, "H T T"]]) -> list[Float[Tensor, "T T"]]:
    """Return the attention rollout of each layer, R_l = A_l R_(l-1) with R_0 = I and
    A_l = 0.5 (mean over heads of layer l) + 0.5 I: an estimate of the fraction of each input token
    at each position, where the residual connection keeps half. Rows sum to 1. Abnar and Zuidema
    2020, section 3.
    """
    rolled_out: list[Tensor] = []
    for layer in weights:
        mean = layer.mean(0).double()
        identity = torch.eye(len(mean), dtype=mean.dtype)
        step = 0.5 * mean + 0.5 * identity
        rolled_out.append(step @ rolled_out[-1] if rolled_out else step)
    return [matrix.float() for matrix in rolled_out]


def rolled(maps: Maps) -> Maps:
    """Return the rollout of self-attention maps, as one head per layer.

    Raises UsageError for cross-attention, or for weights that do not sum to 1.
    """
    if maps.queries != maps.keys or not maps.normalised:
        raise UsageError(
            f"there is no rollout of {maps.name} attention",
            hint="rollout needs self-attention with weights that sum to 1",
        )
    weights = [matrix[None] for matrix in rollout(maps.weights)]
    return replace(maps, measure="rollout", weights=weights, patterns=(), vectors=())


def value_weighted(
    weights: Float[Tensor, "H T S"], norms: Float[Tensor, "H S"]
) -> Float[Tensor, "H T S"]:
    """Return |a[h, t, s] v[h, s] W_O^h|, the length of the vector that a key adds to the output of
    a query. A large weight on a short value (an attention sink) adds little. Kobayashi et al. 2020,
    equation 4."""
    return weights.abs() * norms[:, None]


def weighted(maps: Maps) -> Maps:
    """Return the value-weighted maps; raises ValueError if `maps.vectors` is empty."""
    if len(maps.vectors) != len(maps.weights):
        raise ValueError(f"the maps of {maps.name} have no vectors; record them with vectors=True")
    pairs = zip(maps.weights, maps.vectors, strict=True)
    products = [value_weighted(weights, vectors.norms) for weights, vectors in pairs]
    measure = "value-weighted"
    return replace(
        maps, measure=measure, weights=products, normalised=False, patterns=(), vectors=()
    )
