"""Text embedder on the blocks of a language model: one vector h_t for each token of a text.

Embedding models of today are language models that were trained further to bring similar texts close
together. Qwen3-Embedding stays causal, so that its last token stands for the text; EmbeddingGemma
attends in both directions, as BERT does, and its text vector is a mean.

>>> import torch
>>> from headway.models import GPTConfig, TextEmbedder, TextEmbedderConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1, "vocabulary": 10}
>>> model = TextEmbedder(TextEmbedderConfig(gpt=GPTConfig(**size), causal=False)).eval()
>>> words, keys = torch.tensor([[4, 5, 6]]), torch.tensor([[True, True, False]])
>>> first = model.encode(words, keys)[0, 0]  # the vector of the first of two words
>>> torch.equal(first, model.encode(torch.tensor([[4, 7, 6]]), keys)[0, 0])  # another second word
False
>>> torch.equal(first, model.encode(torch.tensor([[4, 5, 9]]), keys)[0, 0])  # other padding
True
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from headway.attention import Mask
from headway.base.settings import section, setting, sizes_inside
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig


@dataclass(frozen=True, kw_only=True)
class TextEmbedderConfig:
    """Architecture of a `TextEmbedder`: its blocks, and to which tokens they attend."""

    gpt: GPTConfig = section(GPTConfig)
    causal: bool = setting(True, "a token attends only to the tokens before it, and to itself")

    family: ClassVar[str] = "gpt-embedder"
    sizes: ClassVar[dict[str, dict[str, object]]] = sizes_inside("gpt", GPTConfig.sizes)

    @property
    def model_dim(self) -> int:
        """The dimension of a vector."""
        return self.gpt.model_dim

    @property
    def vocabulary(self) -> int:
        """The number of tokens of the vocabulary."""
        return self.gpt.vocabulary

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of a text."""
        return self.gpt.max_length


class TextEmbedder(nn.Module):
    """h_1 ... h_T = decoder(E[x_1 ... x_T]): the vectors of a language model, without its logits.

    Its attention is causal unless `config` says otherwise. Zhang et al. 2025 (Qwen3-Embedding);
    Schechter Vera et al. 2025 (EmbeddingGemma).
    """

    def __init__(self, config: TextEmbedderConfig) -> None:
        super().__init__()
        self.config = config
        self.gpt = GPT(config.gpt)

    def init_weights(self) -> None:
        """Initialise all parameters as those of a language model."""
        self.gpt.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        self.gpt.tie_weights()

    def encode(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of all tokens.

        keys: True for real tokens, False for padding, which is at the right; None if nothing is
        padded. types: ignored; there are no segments.
        """
        mask = None if self.config.causal else Mask(keys=keys)
        hidden: Tensor = self.gpt.decoder(self.gpt.embedding(tokens), None, mask)
        return hidden

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of all tokens, as `encode` does."""
        return self.encode(tokens, keys, types)
