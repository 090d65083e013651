"""A language model that sorts texts into classes, the way GPT-1 was fine-tuned (lectures 3.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from headway.blocks import Dropout
from headway.models.gpt import GPT, GPTConfig
from headway.settings import section, setting
from headway.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig:
    """Shape of a `TextClassifier`: its language model's, and what stands on it."""

    gpt: GPTConfig = section(GPTConfig)
    num_classes: int = setting(2, "what a text may be; 1: a number instead", gt=0)
    dropout: float = setting(
        0.1, "share of the last token's vector dropped while training", ge=0, lt=1
    )

    family: ClassVar[str] = "gpt-classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        name: {f"gpt.{key}": value for key, value in size.items()}
        for name, size in GPTConfig.sizes.items()
    }


class TextClassifier(nn.Module):
    """P(class | x_1 ... x_m) = softmax(h_m W): h_m, the hidden vector of the last real token, has
    read the whole text. With one class, h_m W itself.

    The language model is `gpt` itself, not a copy; only W is new. Radford et al. 2018, equation 3.
    """

    def __init__(self, gpt: GPT, num_classes: int, dropout: float = 0.1) -> None:
        super().__init__()
        if num_classes < 1:
            raise ValueError(f"{num_classes=} must be at least 1")
        self.config = TextClassifierConfig(gpt=gpt.config, num_classes=num_classes, dropout=dropout)
        self.gpt = gpt
        self.dropout = Dropout(dropout)
        weight = gpt.output.weight
        self.head = nn.Linear(
            gpt.config.model_dim, num_classes, bias=False, device=weight.device, dtype=weight.dtype
        )
        if weight.device.type != "meta":
            self.init_head()

    def init_head(self) -> None:
        """The new matrix alone, N(0, 0.02^2); what the language model learned stays."""
        nn.init.normal_(self.head.weight, std=0.02)

    def init_weights(self) -> None:
        """Every value, those of the language model too."""
        self.gpt.init_weights()
        self.init_head()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; again after the parameters were replaced."""
        self.gpt.tie_weights()

    @property
    def max_length(self) -> int | None:
        """The most tokens of a text; None for any number."""
        return self.gpt.max_length

    def classify(
        self, hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits from the language model's hidden vectors. keys: True = real, at least one a row,
        and the real ones first."""
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        last = hidden[rows, keys.sum(1) - 1]  # B T D -> B D
        logits: Tensor = self.head(self.dropout(last))
        return logits

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of each text's class. Padding stands at the right, where no real token sees it.

        types: not looked at; the mark between two texts tells this model where the second begins.
        """
        return self.classify(self.gpt.hidden(tokens), keys)


def text_classifier(config: TextClassifierConfig) -> TextClassifier:
    """A classifier with a fresh language model."""
    return TextClassifier(GPT(config.gpt), config.num_classes, config.dropout)
