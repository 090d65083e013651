"""Random inputs of the checks, by seed."""

from __future__ import annotations

import random as python_random

import torch

from headway.base.shapes import Bool, Float, Tensor


def normal(seed: int, *shape: int) -> Float[Tensor, ...]:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def mask(seed: int, *shape: int) -> Bool[Tensor, ...]:
    """True with probability 2/3, and always for the first key of a query."""
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 2 / 3
    allowed[..., 0] = True
    return allowed


def causal(length: int) -> Bool[Tensor, "T T"]:
    """True where a query may attend: at its own position and before it."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def integers(seed: int, count: int, low: int, high: int) -> list[int]:
    """`count` integers from low to high - 1."""
    generator = python_random.Random(seed)
    return [generator.randrange(low, high) for _ in range(count)]
