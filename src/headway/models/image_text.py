"""Images and texts in one space: logit(image, text) = exp(t) cos(v_image, v_text) + b.

An image encoder and a text encoder, trained together, give an image and a caption of it similar
vectors. So any text can serve as a class: an image belongs to the label whose text is the nearest,
without training on that label (zero-shot), and a text retrieves images.

>>> import torch
>>> from headway.models import ImageText, ImageTextConfig, TextTowerConfig, ViTConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> vit = ViTConfig(image_size=4, patch_size=2, channels=1, **size)
>>> text = TextTowerConfig(vocabulary=10, max_length=5, **size)
>>> model = ImageText(ImageTextConfig(vit=vit, text=text, shared_dim=6)).eval()
>>> images = torch.randn(2, 1, 4, 4)  # B C Y X
>>> captions = torch.tensor([[1, 4, 2], [1, 5, 2], [1, 6, 2]])  # three texts, <s> word </s>
>>> model.image_vectors(images).shape, model.text_vectors(captions).shape  # vectors of length 1
(torch.Size([2, 6]), torch.Size([3, 6]))
>>> model(images, captions).shape  # a logit for each pair
torch.Size([2, 3])
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.base.settings import HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, count, section, setting
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    Added,
    AttentionPooler,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedTable,
    PreNorm,
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models.contracts import init_weights
from headway.models.vit import ViT, ViTConfig, vit_feedforward

TEMPERATURE = 0.07
"""The temperature at the start of training. Radford et al. 2021, section 2.5."""


@dataclass(frozen=True, kw_only=True)
class TextTowerConfig:
    """Architecture of a `TextTower`."""

    vocabulary: int = count(8192, "vocabulary size", VOCABULARY)
    max_length: int = count(77, "maximum number of tokens, special tokens included", LENGTH)
    model_dim: int = count(128, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(4, "number of attention heads", HEADS)
    ffn_dim: int = count(512, "inner dimension of the feed-forward layers", WIDTH)
    num_layers: int = count(6, "number of encoder layers", LAYERS)
    norm_eps: float = setting(1e-5, "epsilon of the norms, added to the variance", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "quick-gelu", "silu"] = setting(
        "gelu", "activation function of the feed-forward layers"
    )
    causal: bool = setting(True, "a token attends only to the tokens before it, and to itself")

    def __post_init__(self) -> None:
        if self.model_dim % self.num_heads:
            raise ValueError(f"{self.model_dim=} must be a multiple of {self.num_heads=}")


@dataclass(frozen=True, kw_only=True)
class ImageTextConfig:
    """Architecture of an `ImageText`. CLIP and SigLIP differ in the last four settings."""

    vit: ViTConfig = section(ViTConfig)
    text: TextTowerConfig = section(TextTowerConfig)
    shared_dim: int = count(128, "width of the space that images and texts share", WIDTH)
    image_pooling: Literal["first", "attention"] = setting(
        "first",
        "pooling of the image vector: [CLS], or a learned query that attends to all patches",
    )
    image_projection: bool = setting(True, "projection of image vectors to the shared space")
    text_bias: bool = setting(False, "bias of the projection of text vectors")
    match: Literal["softmax", "sigmoid"] = setting(
        "softmax",
        "probability of a pair: softmax over the texts, or the sigmoid of each logit, with a bias",
    )

    family: ClassVar[str] = "image-text"
    sizes: ClassVar[dict[str, dict[str, object]]] = {}

    def __post_init__(self) -> None:
        if self.image_pooling == "first" and not self.vit.class_token:
            raise ValueError("image_pooling=first needs [CLS]: set vit.class_token=true")
        if self.vit.pooler != "none":
            raise ValueError("image_pooling decides the image vector: set vit.pooler=none")
        if not self.image_projection and self.vit.model_dim != self.shared_dim:
            raise ValueError(
                f"without image_projection, shared_dim={self.shared_dim} must be the width of the "
                f"image encoder, vit.model_dim={self.vit.model_dim}"
            )


class TextTower(nn.Module):
    """A pre-norm encoder with learned positions. The vector of a text is that of its last token.

    Radford et al. 2021, section 2.4, where it is causal; Zhai et al. 2023, where it is not.
    """

    def __init__(self, config: TextTowerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_dim
        positions = Added(LearnedTable(width, config.max_length))
        self.embedding = Embeddings(nn.Embedding(config.vocabulary, width), positions, scale=1.0)
        blocks = [
            EncoderBlock(
                MultiHeadAttention(width, config.num_heads),
                FeedForward(width, config.ffn_dim, ACTIVATIONS[config.activation]),
                lambda: PreNorm(LayerNorm(width, config.norm_eps)),
            )
            for _ in range(config.num_layers)
        ]
        self.encoder = Encoder(blocks, LayerNorm(width, config.norm_eps))

    def forward(
        self, tokens: Int[Tensor, "B T"], keys: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B D"]:
        """Return the vector of the last token of each text.

        keys: True for tokens, False for the padding after them; None if nothing is padded.
        """
        mask = Mask(causal=self.config.causal, keys=keys)
        hidden = self.encoder(self.embedding(tokens), mask)
        if keys is None:
            return hidden[:, -1]
        last = keys.sum(1) - 1
        return hidden[torch.arange(len(hidden), device=hidden.device), last]


class ImageText(nn.Module):
    """logit(image, text) = exp(t) v_image . v_text + b, of vectors of length 1.

    image_pooler: the query that collects an image vector, or None for [CLS]. scale: t, the
    logarithm of the inverse temperature. bias: b, or None. CLIP has a softmax over all texts and no
    b (Radford et al. 2021, section 2.3 and figure 3); SigLIP has a sigmoid (Zhai et al. 2023,
    section 3.2).
    """

    def __init__(self, config: ImageTextConfig) -> None:
        super().__init__()
        self.config = config
        vit, shared = config.vit, config.shared_dim
        self.vit = ViT(vit)
        self.text = TextTower(config.text)
        self.image_pooler: AttentionPooler | None = None
        if config.image_pooling == "attention":
            attention = MultiHeadAttention(vit.model_dim, vit.num_heads)
            norm = LayerNorm(vit.model_dim, vit.norm_eps)
            self.image_pooler = AttentionPooler(attention, vit_feedforward(vit), norm)
        self.image_projection: nn.Module = nn.Identity()
        if config.image_projection:
            self.image_projection = nn.Linear(vit.model_dim, shared, bias=False)
        self.text_projection = nn.Linear(config.text.model_dim, shared, bias=config.text_bias)
        self.scale = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1)) if config.match == "sigmoid" else None
        if not self.scale.is_meta:
            self.init_weights()

    def init_weights(self) -> None:
        """Initialise both encoders as a ViT, t as log(1 / 0.07) and b as 0."""
        init_weights(self)
        self.vit.init_weights()  # replaces the values of its patches
        nn.init.constant_(self.scale, math.log(1 / TEMPERATURE))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def image_vectors(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B E"]:
        """Return a vector of length 1 for each image, as the image reader prepares it."""
        hidden = self.vit.encode(images)
        if self.image_pooler is None:
            vectors = self.vit.class_vector(hidden)
        else:
            vectors = self.image_pooler(hidden)
        return F.normalize(self.image_projection(vectors), dim=-1)

    def text_vectors(
        self, tokens: Int[Tensor, "B T"], keys: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B E"]:
        """Return a vector of length 1 for each text. keys: see `TextTower`."""
        return F.normalize(self.text_projection(self.text(tokens, keys)), dim=-1)

    def logits(
        self, images: Float[Tensor, "B E"], texts: Float[Tensor, "N E"]
    ) -> Float[Tensor, "B N"]:
        """Return the logit of each image and each text, from their vectors."""
        logits = self.scale.exp() * (images @ texts.T)
        return logits if self.bias is None else logits + self.bias

    def probabilities(self, logits: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Return P(text | image) among all N texts, or with a sigmoid P(pair) of each pair."""
        return logits.sigmoid() if self.config.match == "sigmoid" else logits.softmax(-1)

    def forward(
        self,
        images: Float[Tensor, "B C Y X"],
        tokens: Int[Tensor, "N T"],
        keys: Bool[Tensor, "N T"] | None = None,
    ) -> Float[Tensor, "B N"]:
        """Return the logit of each image and each text."""
        return self.logits(self.image_vectors(images), self.text_vectors(tokens, keys))
