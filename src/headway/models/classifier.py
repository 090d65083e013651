"""Text classifier on a language model: P(class | x_1 ... x_m) = softmax(W h_m).

In a causal model only the vector h_m of the last token depends on the whole text. Fine-tuning adds
one matrix W that turns it into logits of the classes, as in GPT-1.

>>> import torch
>>> from headway.models import GPT, GPTConfig, TextClassifier
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1, "vocabulary": 10}
>>> model = TextClassifier(GPT(GPTConfig(**size)), num_classes=2).eval()
>>> words = torch.tensor([[4, 5, 6]])
>>> keys = torch.tensor([[True, True, False]])  # the third is padding: h_m is that of the second
>>> logits = model(words, keys)
>>> logits.shape
torch.Size([1, 2])
>>> torch.equal(logits, model(torch.tensor([[4, 5, 0]]), keys))  # padding has no effect
True
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from headway.base.settings import fraction, section, setting, sizes_inside
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import Dropout
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig:
    """Architecture of a `TextClassifier`: its language model and its head."""

    gpt: GPTConfig = section(GPTConfig)
    num_classes: int = setting(
        2, "number of classes; 1: regression, a number instead of a class", gt=0
    )
    dropout: float = fraction(0.1, "dropout probability of the last token's vector")

    family: ClassVar[str] = "gpt-classifier"
    sizes: ClassVar[dict[str, dict[str, object]]] = sizes_inside("gpt", GPTConfig.sizes)


class TextClassifier(nn.Module):
    """P(class | x_1 ... x_m) = softmax(W h_m), h_m the hidden vector of the last real token.

    With one class the output is the number W h_m. The language model is `gpt` itself, not a copy;
    only W is new. Radford et al. 2018, equation 3.
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
        if not weight.is_meta:
            self.init_head()

    def init_head(self) -> None:
        """Initialise the new matrix only, with N(0, 0.02^2)."""
        nn.init.normal_(self.head.weight, std=0.02)

    def init_weights(self) -> None:
        """Initialise all parameters, including those of the language model."""
        self.gpt.init_weights()
        self.init_head()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        self.gpt.tie_weights()

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of a text; None if there is no limit."""
        return self.gpt.max_length

    def classify(
        self, hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Return the logits of the classes from the hidden vectors of the language model.

        keys: True for real tokens, at least one in each text; padding is at the right.
        """
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        last = hidden[rows, keys.sum(1) - 1]  # B T D -> B D
        return self.head(self.dropout(last))

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """Return the logits of the classes of each text; padding is at the right.

        types: ignored; a special token between two texts marks where the second one starts.
        """
        return self.classify(self.gpt.hidden(tokens), keys)


def text_classifier(config: TextClassifierConfig) -> TextClassifier:
    """Return a classifier with a new language model."""
    return TextClassifier(GPT(config.gpt), config.num_classes, config.dropout)
