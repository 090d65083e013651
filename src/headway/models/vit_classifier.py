"""Image classifier: P(class | image) = softmax(W v + b), v the vector of a Vision Transformer.

The image is encoded by a `ViT`; v is the output of [CLS], the mean of the outputs of the patches,
or both concatenated. One new linear layer turns v into logits of the classes. DeiT has a second one
for its distillation token; its logits are the mean of both.

>>> import torch
>>> from headway.models import ViT, ViTClassifier, ViTConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> vit = ViT(ViTConfig(image_size=4, patch_size=2, channels=1, **size))
>>> model = ViTClassifier(vit, num_classes=3, pooling="both").eval()
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # B C Y X: four patches of 2 x 2 pixels
>>> model(image).shape  # logits of three classes
torch.Size([1, 3])
>>> model.head.weight.shape  # [CLS] and the mean of the patches: 8 + 8 features
torch.Size([3, 16])
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import nn

from headway.base.settings import fraction, section, setting, sizes_inside
from headway.base.shapes import Float, Tensor
from headway.blocks import Dropout
from headway.models.vit import ViT, ViTConfig

ImagePooling = Literal["first", "mean", "both"]
HeadPooling = Literal["first", "mean", "both", "distilled"]


@dataclass(frozen=True, kw_only=True)
class ViTClassifierConfig:
    """Architecture of a `ViTClassifier`: its encoder and its head."""

    vit: ViTConfig = section(ViTConfig)
    num_classes: int = setting(2, "number of classes", gt=0)
    pooling: HeadPooling = setting(
        "first",
        "pooling of the image vector: first ([CLS]), mean of the patches, or both; distilled: the "
        "mean of the logits of [CLS] and of the distillation token",
    )
    dropout: float = fraction(0.0, "dropout probability of the image vector")

    family: ClassVar[str] = "vit-classifier"
    sizes: ClassVar[dict[str, dict[str, object]]] = sizes_inside("vit", ViTConfig.sizes)


class ViTClassifier(nn.Module):
    """P(class | image) = softmax(W v + b) with the vector v of the image.

    v is the output of [CLS] after the last norm (Dosovitskiy et al. 2021, equation 4), the mean of
    the patches' outputs, or both (Oquab et al. 2023, section 7.1). With pooling="distilled" the
    logits are the mean of those from [CLS] and those of a second layer from the distillation token
    (Touvron et al. 2021, section 4). The encoder is `vit` itself, not a copy; its pooler is
    removed.
    """

    def __init__(
        self,
        vit: ViT,
        num_classes: int,
        pooling: HeadPooling = "first",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pooling != "mean" and not vit.config.class_token:
            raise ValueError(
                f"{pooling=} needs [CLS], which the encoder does not have: use pooling=mean"
            )
        if pooling == "distilled" and not vit.config.distillation_token:
            raise ValueError(
                f"{pooling=} needs a distillation token, which the encoder does not have: use "
                "pooling=first"
            )
        vit.config, vit.pooler = replace(vit.config, pooler="none"), None
        self.vit = vit
        self.config = ViTClassifierConfig(
            vit=vit.config, num_classes=num_classes, pooling=pooling, dropout=dropout
        )
        self.dropout = Dropout(dropout)
        weight = vit.embedding.patches.project.weight
        width = vit.config.model_dim * (2 if pooling == "both" else 1)
        self.head = nn.Linear(width, num_classes, device=weight.device, dtype=weight.dtype)
        self.distilled_head = (
            nn.Linear(width, num_classes, device=weight.device, dtype=weight.dtype)
            if pooling == "distilled"
            else None
        )
        if not weight.is_meta:
            self.init_head()

    def init_head(self) -> None:
        """Initialise the new layers only, with N(0, 0.02^2) and zero bias."""
        for head in (self.head, self.distilled_head):
            if head is not None:
                nn.init.normal_(head.weight, std=0.02)
                nn.init.zeros_(head.bias)

    def init_weights(self) -> None:
        """Initialise all parameters, including those of the encoder."""
        self.vit.init_weights()
        self.init_head()

    def classify(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B C"]:
        """Return the logits of the classes from the vectors of the encoder."""
        if self.config.pooling != "distilled":
            return self.head(self.dropout(pooled(self.vit, hidden, self.config.pooling)))
        assert self.distilled_head is not None  # made for this pooling
        of_class = self.head(self.dropout(self.vit.class_vector(hidden)))
        of_teacher = self.distilled_head(self.dropout(hidden[:, 1]))
        return (of_class + of_teacher) / 2

    def forward(self, images: Float[Tensor, "B C_in Y X"]) -> Float[Tensor, "B C"]:
        """Return the logits of the classes of each image."""
        return self.classify(self.vit.encode(images))


def pooled(vit: ViT, hidden: Float[Tensor, "B T D"], pooling: ImagePooling) -> Float[Tensor, "B _"]:
    """Return one vector for each image. ValueError if `pooling` needs [CLS] and there is none."""
    if pooling == "first":
        return vit.class_vector(hidden)
    mean = vit.mean_vector(hidden)
    return mean if pooling == "mean" else torch.cat((vit.class_vector(hidden), mean), dim=-1)


def vit_classifier(config: ViTClassifierConfig) -> ViTClassifier:
    """Return a classifier with a new encoder."""
    return ViTClassifier(ViT(config.vit), config.num_classes, config.pooling, config.dropout)
