"""An encoder of images with one more output layer: what a picture shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from headway.blocks import Dropout
from headway.models.vit import ViT, ViTConfig
from headway.settings import section, setting
from headway.shapes import Float, Tensor

ImagePooling = Literal["first", "mean", "both"]


@dataclass(frozen=True, kw_only=True)
class ViTClassifierConfig:
    """Shape of a `ViTClassifier`: its encoder's, and what stands on it."""

    vit: ViTConfig = section(ViTConfig)
    num_classes: int = setting(2, "what an image may show", gt=0)
    pooling: ImagePooling = setting(
        "first", "an image's vector: [CLS]'s, the mean of its patches', or the two side by side"
    )
    dropout: float = setting(0.0, "share of that vector dropped while training", ge=0, lt=1)

    family: ClassVar[str] = "vit-classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        name: {f"vit.{key}": value for key, value in size.items()}
        for name, size in ViTConfig.sizes.items()
    }


class ViTClassifier(nn.Module):
    """P(class | image) = softmax(W v + b), v the image's vector.

    v is that of [CLS] after the last norm (Dosovitskiy et al. 2021, equation 4), the mean of the
    patches', or both (Oquab et al. 2023, section 7.1). The encoder is `vit` itself, its pooler
    dropped.
    """

    def __init__(
        self,
        vit: ViT,
        num_classes: int,
        pooling: ImagePooling = "first",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pooling != "mean" and not vit.config.class_token:
            raise ValueError(f"{pooling=} reads [CLS], and the encoder has none: pooling=mean")
        vit.config, vit.pooler = replace(vit.config, pooler="none"), None
        self.vit = vit
        self.config = ViTClassifierConfig(
            vit=vit.config, num_classes=num_classes, pooling=pooling, dropout=dropout
        )
        self.dropout = Dropout(dropout)
        weight = vit.embedding.patches.project.weight
        width = vit.config.model_dim * (2 if pooling == "both" else 1)
        self.head = nn.Linear(width, num_classes, device=weight.device, dtype=weight.dtype)
        if weight.device.type != "meta":
            self.init_head()

    def init_head(self) -> None:
        """The new layer alone, N(0, 0.02^2) and zero bias; what the encoder learned stays."""
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def init_weights(self) -> None:
        """Every value, those of the encoder too."""
        self.vit.init_weights()
        self.init_head()

    def classify(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B C"]:
        """Logits from the encoder's vectors."""
        logits: Tensor = self.head(self.dropout(pooled(self.vit, hidden, self.config.pooling)))
        return logits

    def forward(self, images: Float[Tensor, "B C_in Y X"]) -> Float[Tensor, "B C"]:
        """Logits of each image's class."""
        return self.classify(self.vit.encode(images))


def pooled(vit: ViT, hidden: Float[Tensor, "B T D"], pooling: ImagePooling) -> Float[Tensor, "B _"]:
    """One vector for each image. ValueError where there is no [CLS] and it is asked for."""
    if pooling == "first":
        return vit.of_class(hidden)
    mean = vit.of_patches(hidden).mean(1)
    return mean if pooling == "mean" else torch.cat((vit.of_class(hidden), mean), dim=-1)


def vit_classifier(config: ViTClassifierConfig) -> ViTClassifier:
    """A classifier with a fresh encoder."""
    return ViTClassifier(ViT(config.vit), config.num_classes, config.pooling, config.dropout)
