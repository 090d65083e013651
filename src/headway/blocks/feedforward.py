"""The position-wise feed-forward network: the nonlinearity between attentions."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import nn

from headway.blocks.dropout import Dropout
from headway.shapes import Float, Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """activation(x W_1 + b_1) W_2 + b_2, the same weights at every position.

    The paper's activation is ReLU. Vaswani et al. 2017, section 3.3.
    """

    def __init__(
        self,
        model_dim: int,
        ffn_dim: int,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(model_dim, ffn_dim)
        self.contract = nn.Linear(ffn_dim, model_dim)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        out: Tensor = self.contract(self.dropout(self.activation(self.expand(x))))
        return out
