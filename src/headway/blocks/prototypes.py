"""What stands on an encoder that teaches itself: how near an image is to many prototypes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from headway.shapes import Float, Tensor


class PrototypeHead(nn.Module):
    """cos(m(x), c_k) for each of K learned directions c_k; m is three layers with GELU between.

    Caron et al. 2021 (DINO), section 3.1 and appendix C: the last layer's rows have length 1.
    """

    def __init__(self, model_dim: int, hidden_dim: int, bottleneck: int, prototypes: int) -> None:
        super().__init__()
        self.first = nn.Linear(model_dim, hidden_dim)
        self.second = nn.Linear(hidden_dim, hidden_dim)
        self.last = nn.Linear(hidden_dim, bottleneck)
        self.prototypes = nn.Parameter(torch.empty(prototypes, bottleneck))
        if self.prototypes.device.type != "meta":
            self.init_weights()

    def init_weights(self) -> None:
        """N(0, 0.02^2), as their released code; directions any."""
        for layer in (self.first, self.second, self.last):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.prototypes)

    def forward(self, vectors: Float[Tensor, "B D"]) -> Float[Tensor, "B K"]:
        hidden = self.last(F.gelu(self.second(F.gelu(self.first(vectors)))))
        return F.normalize(hidden, dim=-1) @ F.normalize(self.prototypes, dim=-1).T
