"""Exponential moving average of the weights, which usually scores better than the last ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from headway.base.shapes import Tensor


class WeightAverage:
    """Exponential moving average of the weights (EMA): a <- d a + (1 - d) w after step t.

    d = min(decay, (1 + t) / (10 + t)) grows, so that the average forgets the random initial
    weights quickly. Polyak and Juditsky 1992; the warm start as in Tan and Le 2019.

    Only of parameters that are trained: frozen ones keep their values, and those of a quantised
    base are codes, of which there is no average.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"{decay=} must be above 0 and below 1")
        self.decay = decay
        self.weights = {
            n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad
        }

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        current = dict(model.named_parameters())
        torch._foreach_lerp_(
            list(self.weights.values()), [current[name] for name in self.weights], 1 - decay
        )

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Replace the model's weights by the average inside the block; restore them afterwards."""
        trained: dict[str, Tensor] = {}
        parameters = {n: p for n, p in model.named_parameters() if n in self.weights}
        for name, parameter in parameters.items():
            trained[name] = parameter.data
            parameter.data = self.weights[name]
        try:
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = trained[name]
