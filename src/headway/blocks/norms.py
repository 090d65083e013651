"""Normalisation over the features of each position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from headway.shapes import Float, Tensor


class LayerNorm(nn.Module):
    """gain * (x - mean(x)) / sqrt(var(x) + eps) + shift, over the last axis.

    Mean and (biased) variance are those of one position's D features, so no position sees another.
    Ba et al. 2016.
    """

    def __init__(self, model_dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(model_dim))
        self.shift = nn.Parameter(torch.zeros(model_dim))
        self.eps = eps

    def init_weights(self) -> None:
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.shift)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)


class RMSNorm(nn.Module):
    """gain * x / sqrt(mean(x^2) + eps), over the last axis: a LayerNorm without mean and shift.

    The mean of squares is taken in float32 or better. Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, model_dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(model_dim))
        self.eps = eps

    def init_weights(self) -> None:
        nn.init.ones_(self.gain)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        exact = x.to(torch.promote_types(x.dtype, self.gain.dtype))
        return F.rms_norm(exact, self.gain.shape, self.gain, self.eps).to(x.dtype)
