"""Residual connection: y = x + sublayer(norm(x)), or norm(x + sublayer(x)) in the 2017 paper.

Each sublayer (attention or feed-forward) adds a change to the vectors instead of replacing them. So
the gradient reaches the first block undiminished through the sums. Whether the norm is before or
after is a choice of class, not a flag.

>>> import torch
>>> from headway.blocks import LayerNorm, PostNorm, PreNorm
>>> words = torch.tensor([[[1.0, 3.0], [2.0, 2.0], [0.0, 4.0]]])  # B T D = 1 3 2
>>> PreNorm(LayerNorm(2))(words, lambda y: 10 * y)[0].detach().round(decimals=1)
tensor([[ -9.,  13.],
        [  2.,   2.],
        [-10.,  14.]])
>>> PostNorm(LayerNorm(2))(words, lambda x: 10 * x)[0].detach().round(decimals=1)
tensor([[-1.,  1.],
        [ 0.,  0.],
        [-1.,  1.]])

LayerNorm turns the words into (-1, 1), (0, 0) and (-1, 1): pre-norm adds ten times these to x, and
post-norm applies it last.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class Residual(Protocol):
    """Wraps a sublayer, which is a function of x alone: attention or feed-forward."""

    def __call__(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]: ...


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))).

    Trains without a warm-up of the learning rate. The sum itself is never normalised, so the stack
    needs a norm after its last block. Xiong et al. 2020.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(sublayer(self.norm(x)))
        return x + change


class ScaledPreNorm(nn.Module):
    """x + dropout(gain * sublayer(norm(x))), with one learned gain per dimension: LayerScale.

    start: initial value of the gains. With small gains a deep stack starts near the identity.
    Touvron et al. 2021 (CaiT), section 2.
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
    """norm(x + dropout(sublayer(x))). Vaswani et al. 2017, section 3.1."""

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return self.norm(x + self.dropout(sublayer(x)))


class InnerNorm(nn.Module):
    """x + dropout(norm(sublayer(x))): the change is normalised, the residual stream is not.

    OLMo 2, section 3.1.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(self.norm(sublayer(x)))
        return x + change


class SandwichNorm(nn.Module):
    """x + dropout(after_norm(sublayer(norm(x)))): a norm before and one after each sublayer.

    Ding et al. 2021 (CogView), section 2.4; Gemma 2 and 3.
    """

    def __init__(self, norm: nn.Module, after_norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.after_norm = after_norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(self.after_norm(sublayer(self.norm(x))))
        return x + change


class MultipliedPreNorm(nn.Module):
    """x + dropout(scale * sublayer(norm(x))), with one fixed scale for all dimensions (Granite)."""

    def __init__(self, norm: nn.Module, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.scale = scale
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        change: Tensor = self.dropout(self.scale * sublayer(self.norm(x)))
        return x + change
