"""Dropout: y = x * keep / (1 - p) with keep ~ Bernoulli(1 - p), while training; else y = x.

Each element is set to 0 with probability p, so that no feature can rely on another one being there.
The division keeps the expected value: E[y] = x.

>>> import torch
>>> from headway.blocks import Dropout
>>> words = torch.ones(3, 4)
>>> dropped = Dropout(0.5)(words)  # each element is 0 or 1 / (1 - 0.5) = 2
>>> sorted(set(dropped.flatten().tolist()) | {0.0, 2.0})
[0.0, 2.0]
>>> torch.equal(Dropout(0.5).eval()(words), words)
True
"""

import torch
from torch import nn

from headway.base.shapes import Float, Tensor


class Dropout(nn.Module):
    """Sets elements to 0 with probability p while training. Srivastava et al. 2014."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"{p=} must be at least 0 and below 1")
        self.p = p

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand_like(x) >= self.p
        return x * keep / (1 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
