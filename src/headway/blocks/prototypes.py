"""Prototype head: logit_k = cos(m(x), c_k), the similarity of an image to K learned directions.

m is a network of three layers with GELU. In self-distillation (DINO) there are no labels; student
and teacher compare their distributions over the K prototypes c_k instead of classes.

>>> import torch
>>> from headway.blocks import PrototypeHead
>>> head = PrototypeHead(model_dim=2, hidden_dim=2, bottleneck=2, prototypes=3)
>>> _ = head.last.weight.data.zero_()
>>> _ = head.last.bias.data.copy_(torch.tensor([3.0, 4.0]))  # m(x) = (3, 4) for every x
>>> _ = head.prototypes.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-30.0, -40.0]]))
>>> head(torch.randn(1, 2)).detach()  # only the directions count, not the lengths
tensor([[ 0.6000,  0.8000, -1.0000]])
"""

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor


class PrototypeHead(nn.Module):
    """cos(m(x), c_k) for K learned directions c_k, where m has three layers with GELU between them.

    bottleneck: the width of m(x) and of the c_k. Caron et al. 2021 (DINO), section 3.1 and appendix
    C, where the rows of the last layer are normalised to length 1.
    """

    def __init__(self, model_dim: int, hidden_dim: int, bottleneck: int, prototypes: int) -> None:
        super().__init__()
        self.first = nn.Linear(model_dim, hidden_dim)
        self.second = nn.Linear(hidden_dim, hidden_dim)
        self.last = nn.Linear(hidden_dim, bottleneck)
        self.prototypes = nn.Parameter(torch.empty(prototypes, bottleneck))
        if not self.prototypes.is_meta:
            self.init_weights()

    def init_weights(self) -> None:
        """Initialise layers with N(0, 0.02^2), as DINO's released code; directions with N(0, 1)."""
        for layer in (self.first, self.second, self.last):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.prototypes)

    def forward(self, vectors: Float[Tensor, "B D"]) -> Float[Tensor, "B K"]:
        hidden = self.last(F.gelu(self.second(F.gelu(self.first(vectors)))))
        return F.normalize(hidden, dim=-1) @ F.normalize(self.prototypes, dim=-1).T
