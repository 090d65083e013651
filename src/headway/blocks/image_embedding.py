"""Images -> vectors that enter the first block: patches in their places, and tokens beside them."""

from __future__ import annotations

import torch
from torch import nn

from headway.blocks.dropout import Dropout
from headway.blocks.patches import Patches
from headway.blocks.positions_2d import GridPositions, LearnedGrid
from headway.shapes import Bool, Float, Tensor


class ImageEmbedding(nn.Module):
    """dropout([c + place of c; registers; E p_1 + place_1; ... E p_P + place_P]).

    c, the class token, is a trained vector that will have read the whole image (Dosovitskiy et al.
    2021, section 3.1); its place is trained where the patches' are. Registers are trained vectors
    that nobody reads, for the attention to write in (Darcet et al. 2024). `mask_token` stands where
    a patch is hidden (Bao et al. 2022).
    """

    def __init__(
        self,
        patches: Patches,
        positions: GridPositions,
        *,
        class_token: bool = True,
        registers: int = 0,
        mask_token: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        dim = patches.project.out_features
        has_place = class_token and isinstance(positions, LearnedGrid)
        self.class_token = nn.Parameter(torch.zeros(1, dim)) if class_token else None
        self.class_place = nn.Parameter(torch.zeros(1, dim)) if has_place else None
        self.registers = nn.Parameter(torch.zeros(registers, dim)) if registers else None
        self.mask_token = nn.Parameter(torch.zeros(1, dim)) if mask_token else None
        self.dropout = Dropout(dropout)

    def init_weights(self) -> None:
        """N(0, 0.02^2) for the trained tokens, 0 for the one that hides patches."""
        for token in (self.class_token, self.class_place, self.registers):
            if token is not None:
                nn.init.normal_(token, std=0.02)
        if self.mask_token is not None:
            nn.init.zeros_(self.mask_token)

    @property
    def beside(self) -> int:
        """Tokens that stand before those of the patches."""
        return int(self.class_token is not None) + (
            0 if self.registers is None else len(self.registers)
        )

    def forward(
        self, images: Float[Tensor, "B C Y X"], hidden: Bool[Tensor, "B P"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """hidden: True where a patch is not to be seen. ValueError without a token for that."""
        tokens: Tensor = self.patches(images)
        if hidden is not None:
            if self.mask_token is None:
                raise ValueError("this model has no token for hidden patches")
            tokens = torch.where(hidden[..., None], self.mask_token.to(tokens.dtype), tokens)
        rows, columns = self.patches.grid(images.shape[2], images.shape[3])
        tokens = self.positions(tokens, rows, columns)
        before = []
        if self.class_token is not None:
            place = 0 if self.class_place is None else self.class_place
            before.append(self.class_token + place)
        if self.registers is not None:
            before.append(self.registers)
        if before:
            front = torch.cat(before).to(tokens.dtype).expand(len(images), -1, -1)
            tokens = torch.cat((front, tokens), dim=1)
        out: Tensor = self.dropout(tokens)
        return out
