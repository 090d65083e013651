"""Position-wise feed-forward network: y = activation(x W_1 + b_1) W_2 + b_2.

Each position is expanded to F dimensions, passed through a nonlinearity and projected back to D,
with the same weights at every position. Attention mixes positions; this layer transforms each one.

>>> import torch
>>> from headway.blocks import FeedForward
>>> layer = FeedForward(model_dim=1, ffn_dim=2, bias=False)
>>> _ = layer.expand.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
>>> _ = layer.contract.weight.data.fill_(1.0)
>>> words = torch.tensor([[[-2.0], [0.0], [3.0]]])  # B T D = 1 3 1
>>> layer(words)[0].detach()  # relu(x) + relu(-x) = |x|, which no linear map computes
tensor([[2.],
        [0.],
        [3.]])
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.dropout import Dropout

Activation = Callable[[Tensor], Tensor]


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x), an approximation of GELU. Hendrycks and Gimpel 2016, section 2."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    # x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in GPT; Hendrycks and Gimpel 2016, section 2
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "quick-gelu": quick_gelu,
    "silu": F.silu,
}
CLAMPED = "swiglu-clamped"
GATES = {"geglu": "gelu-tanh", "geglu-exact": "gelu", "swiglu": "silu", CLAMPED: "quick-gelu"}
"""Names of gated feed-forward layers -> the activation of the gate. Shazeer 2020."""


class FeedForward(nn.Module):
    """activation(x W_1 + b_1) W_2 + b_2, with the same weights at every position.

    Dropout is applied to the F activations. The paper's activation is ReLU. Vaswani et al. 2017,
    section 3.3.
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
        return self.contract(self.dropout(self.activation(self.expand(x))))


class GatedFeedForward(nn.Module):
    """(activation(x W_g) * x W_1) W_2: one projection is a gate that scales the other.

    With SiLU it is SwiGLU. It has three matrices instead of two, so F = 8/3 D costs as much as
    F = 4 D without a gate. Shazeer 2020, equation 6.
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
        return self.contract(self.dropout(gated))


class ClampedFeedForward(GatedFeedForward):
    """(activation(min(g, c)) * (clip(h, -c, c) + 1)) W_2, g = x W_g, h = x W_1: `GatedFeedForward`
    whose activations cannot grow without limit.

    c is 7. The gate alone passes a signal where h = 0. gpt-oss (OpenAI 2025), section 2.
    """

    limit = 7.0

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate = self.activation(self.gate(x).clamp(max=self.limit))
        expanded = self.expand(x).clamp(-self.limit, self.limit)
        return self.contract(self.dropout(gate * (expanded + 1)))
