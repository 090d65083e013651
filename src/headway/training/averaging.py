"""A running average of the weights, which translates better than the last weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from headway.shapes import Tensor


class WeightAverage:
    """a <- d a + (1 - d) w after each step, d = min(decay, (1 + t) / (10 + t)).

    The growing d lets the average forget the first random weights at once. Polyak and Juditsky
    1992; the warm start as in Tan and Le 2019.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"{decay=} must lie between 0 and 1")
        self.decay = decay
        self.weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        current = dict(model.named_parameters())
        torch._foreach_lerp_(
            list(self.weights.values()), [current[name] for name in self.weights], 1 - decay
        )

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """The model with the averaged weights, for evaluation and saving; then its own again."""
        own: dict[str, Tensor] = {}
        for name, parameter in model.named_parameters():
            own[name] = parameter.data
            parameter.data = self.weights[name]
        try:
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]
