"""The residual connection and where its norm stands: an object, not a flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from headway.blocks.dropout import Dropout
from headway.shapes import Float, Tensor

Sublayer = Callable[[Tensor], Tensor]


@runtime_checkable
class Residual(Protocol):
    """Wraps a sublayer: attention or feed-forward, a function of x alone."""

    def __call__(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]: ...


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))). Trains without a warm-up; the stack needs a last norm.

    Xiong et al. 2020.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(sublayer(self.norm(x)))
        return x + change


class ScaledPreNorm(nn.Module):
    """x + dropout(gain * sublayer(norm(x))), a gain for each dimension: LayerScale.

    Gains that begin small let a deep stack begin near the identity. Touvron et al. 2021, section 2.
    """

    def __init__(self, norm: nn.Module, model_dim: int, start: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.start = start
        self.gain = nn.Parameter(torch.full((model_dim,), start))
        self.dropout = Dropout(dropout)

    def init_weights(self) -> None:
        nn.init.constant_(self.gain, self.start)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(self.gain * sublayer(self.norm(x)))
        return x + change


class PostNorm(nn.Module):
    """norm(x + dropout(sublayer(x))), as in the 2017 paper. Vaswani et al. 2017, section 3.1."""

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed
