"""Image embedding: x = [c + p_c; registers; E patch_1 + p_1; ...; E patch_P + p_P].

An image becomes a sequence of tokens for a Transformer: one token for each patch, projected and
with its position added, after a learned class token [CLS] whose output represents the whole image.

>>> import torch
>>> from headway.blocks import ImageEmbedding, NoGrid, Patches
>>> patches = Patches(channels=1, height=2, width=2, model_dim=3)
>>> embedding = ImageEmbedding(patches, NoGrid(), registers=1)
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # B C Y X: four patches of 2 x 2 pixels
>>> embedding(image).shape  # B T D: the class token, one register and four patches
torch.Size([1, 6, 3])
>>> torch.equal(embedding(image)[:, embedding.num_prefix_tokens :], patches(image))
True
"""

import torch
from torch import nn

from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.dropout import Dropout
from headway.blocks.patches import Patches
from headway.blocks.positions_2d import GridPositions, LearnedGrid


class ImageEmbedding(nn.Module):
    """dropout(norm([c + p_c; registers; E patch_1 + p_1; ... E patch_P + p_P])).

    class_token: whether the sequence starts with the class token c, a learned vector (Dosovitskiy
    et al. 2021, section 3.1); its position vector p_c is learned if those of the patches are.
    registers: the number of register tokens, learned vectors whose outputs are not used, so that
    attention can store intermediate results in them (Darcet et al. 2024). mask_token: whether there
    is a learned vector that replaces masked patches (Bao et al. 2022). norm: only CLIP has one
    (Radford et al. 2021, section 2.4); None leaves the vectors as they are. distillation_token:
    whether a second learned token with a position follows the class token, whose output predicts
    what a teacher predicts (Touvron et al. 2021, section 4).
    """

    def __init__(
        self,
        patches: Patches,
        positions: GridPositions,
        *,
        class_token: bool = True,
        distillation_token: bool = False,
        registers: int = 0,
        mask_token: bool = False,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        dim = patches.project.out_features
        learned_position = class_token and isinstance(positions, LearnedGrid)
        self.class_token = nn.Parameter(torch.zeros(1, dim)) if class_token else None
        self.class_position = nn.Parameter(torch.zeros(1, dim)) if learned_position else None
        distilled_position = distillation_token and isinstance(positions, LearnedGrid)
        self.distillation_token = nn.Parameter(torch.zeros(1, dim)) if distillation_token else None
        self.distillation_position = (
            nn.Parameter(torch.zeros(1, dim)) if distilled_position else None
        )
        self.registers = nn.Parameter(torch.zeros(registers, dim)) if registers else None
        self.mask_token = nn.Parameter(torch.zeros(1, dim)) if mask_token else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)

    def init_weights(self) -> None:
        """Initialise the learned tokens: N(0, 0.02^2), and 0 for the mask token."""
        for token in (
            self.class_token,
            self.class_position,
            self.distillation_token,
            self.distillation_position,
            self.registers,
        ):
            if token is not None:
                nn.init.normal_(token, std=0.02)
        if self.mask_token is not None:
            nn.init.zeros_(self.mask_token)

    @property
    def num_prefix_tokens(self) -> int:
        """The number of tokens before the patches: class and distillation token, registers."""
        tokens = (self.class_token, self.distillation_token, self.registers)
        return sum(len(token) for token in tokens if token is not None)

    def forward(
        self, images: Float[Tensor, "B C Y X"], hidden: Bool[Tensor, "B P"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Embed the images.

        hidden: True where the mask token replaces a patch. Raises ValueError if patches are masked
        but the model has no mask token.
        """
        tokens: Tensor = self.patches(images)
        if hidden is not None:
            if self.mask_token is None:
                raise ValueError(
                    "masked patches need a mask token, which this model does not have: "
                    "build it with mask_token=true"
                )
            tokens = torch.where(hidden[..., None], self.mask_token.to(tokens.dtype), tokens)
        rows, columns = self.patches.grid(images.shape[2], images.shape[3])
        tokens = self.positions(tokens, rows, columns)
        before = []
        for token, position in (
            (self.class_token, self.class_position),
            (self.distillation_token, self.distillation_position),
        ):
            if token is not None:
                before.append(token if position is None else token + position)
        if self.registers is not None:
            before.append(self.registers)
        if before:
            first = torch.cat(before).to(tokens.dtype).expand(images.shape[0], -1, -1)
            tokens = torch.cat((first, tokens), dim=1)
        return self.dropout(self.norm(tokens))
