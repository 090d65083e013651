"""Normalisation: y = gain * (x - mean(x)) / sqrt(var(x) + eps) + shift, for each position alone.

The D features of a vector get mean 0 and variance 1, then a learned gain and shift. Activations
keep a known size however many blocks are stacked, so deep stacks can be trained.

>>> import torch
>>> from headway.blocks import LayerNorm, RMSNorm
>>> words = torch.tensor([[1.0, 3.0], [100.0, 300.0], [-4.0, 4.0]])  # three words, two features
>>> LayerNorm(2)(words).detach().round(decimals=2)  # mean 0, variance 1: the size is forgotten
tensor([[-1.,  1.],
        [-1.,  1.],
        [-1.,  1.]])
>>> RMSNorm(2)(words).detach().round(decimals=2)  # mean of squares 1: the mean is kept
tensor([[ 0.4500,  1.3400],
        [ 0.4500,  1.3400],
        [-1.0000,  1.0000]])
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor


class LayerNorm(nn.Module):
    """gain * (x - mean(x)) / sqrt(var(x) + eps) + shift, over the last axis.

    Mean and (biased) variance are those of the D features of one position, so no position depends
    on another. gain starts at 1 and shift at 0. Ba et al. 2016.
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

    The mean of squares is computed in float32 or better. Zhang and Sennrich 2019, equation 4.
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


class OffsetRMSNorm(nn.Module):
    """(1 + gain) * x / sqrt(mean(x^2) + eps): an RMSNorm whose gains start at 0, as Gemma's.

    Weight decay then pulls the factor towards 1, not towards 0.
    """

    def __init__(self, model_dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(model_dim))
        self.eps = eps

    def init_weights(self) -> None:
        nn.init.zeros_(self.gain)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        exact = x.to(torch.promote_types(x.dtype, self.gain.dtype))
        return F.rms_norm(exact, self.gain.shape, 1 + self.gain, self.eps).to(x.dtype)


class GainNorm(nn.Module):
    """gain * (x - mean(x)) / sqrt(var(x) + eps): a LayerNorm without shift (MPT, Cohere)."""

    def __init__(self, model_dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(model_dim))
        self.eps = eps

    def init_weights(self) -> None:
        nn.init.ones_(self.gain)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return F.layer_norm(x, self.gain.shape, self.gain, None, self.eps)


class PlainNorm(nn.Module):
    """(x - mean(x)) / sqrt(var(x) + eps): a LayerNorm without parameters (OLMo)."""

    def __init__(self, model_dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.eps = eps

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return F.layer_norm(x, (self.model_dim,), None, None, self.eps)


Norm = LayerNorm | RMSNorm | OffsetRMSNorm | GainNorm | PlainNorm
NORMS: dict[str, Callable[[int, float], Norm]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "rms-offset": OffsetRMSNorm,
    "layer-gain": GainNorm,
    "layer-plain": PlainNorm,
}
"""Names in configurations -> the norm of vectors of a width, with an epsilon."""


class AcrossHeads(nn.Module):
    """norm([x_1 ... x_H]): all heads of a position are normalised as one vector of width H K.

    norm: of width H K. It is QK-norm over the whole width, as in OLMo 2, where each head is not
    scaled by its own size.
    """

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Float[Tensor, "N H T K"]) -> Float[Tensor, "N H T K"]:
        joined = x.transpose(1, 2)  # N H T K -> N T H K
        normed: Tensor = self.norm(joined.flatten(2))
        return normed.view(joined.shape).transpose(1, 2)
