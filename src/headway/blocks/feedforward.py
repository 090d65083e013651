"""The position-wise feed-forward network: the nonlinearity between attentions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import nn

from headway.blocks.dropout import Dropout
from headway.shapes import Float, Tensor

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    # x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT's; Hendrycks and Gimpel 2016, section 2
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """activation(x W_1 + b_1) W_2 + b_2, the same weights at every position.

    The paper's activation is ReLU. Vaswani et al. 2017, section 3.3.
    """

    def __init__(
        self,
        model_dim: int,
        ffn_dim: int,
        activation: Activation = F.relu,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(model_dim, ffn_dim, bias=bias)
        self.contract = nn.Linear(ffn_dim, model_dim, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        out: Tensor = self.contract(self.dropout(self.activation(self.expand(x))))
        return out


class GatedFeedForward(nn.Module):
    """(activation(x W_g) * x W_1) W_2: one projection opens and closes the other.

    With SiLU it is SwiGLU. Three matrices, so F = 8/3 D costs what F = 4 D costs without a gate.
    Shazeer 2020, equation 6.
    """

    def __init__(
        self,
        model_dim: int,
        ffn_dim: int,
        activation: Activation = F.silu,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(model_dim, ffn_dim, bias=bias)
        self.expand = nn.Linear(model_dim, ffn_dim, bias=bias)
        self.contract = nn.Linear(ffn_dim, model_dim, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gated = self.activation(self.gate(x)) * self.expand(x)
        out: Tensor = self.contract(self.dropout(gated))
        return out
